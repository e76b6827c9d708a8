#!/bin/sh
# Registers both tools at the service, for a server of yours at URL:
#
#     RUNWARD_KEY=rw_… examples/tools/register.sh http://127.0.0.1:9000
#
# Prints their signing secrets as shell variables. They are shown this once, so keep them:
#
#     eval "$(examples/tools/register.sh http://127.0.0.1:9000)"
#
# Tools that already exist are updated to URL and get a new secret.
set -eu
url=${1:?where the tools are, such as http://127.0.0.1:9000}
api=${RUNWARD_URL:-http://127.0.0.1:8080}
: "${RUNWARD_KEY:?is not set: an API key with the scope tools:write}"
here=$(cd "$(dirname "$0")" && pwd)

send() { # method, path, body
  printf '%s' "$3" | curl -sS -X "$1" "$api$2" --data-binary @- \
    -H "Authorization: Bearer $RUNWARD_KEY" -H 'Content-Type: application/json'
}

for name in lookup_order refund; do
  tool=$(sed "s|\"URL/|\"$url/|" "$here/$name.json")
  answer=$(send POST /v1/tools "$tool")
  case $answer in
    *'"already_exists"'*)
      # The name and the type cannot change, so an update must not contain them.
      change=$(printf '%s' "$tool" | sed -E '/^  "(name|type)": /d')
      send PATCH "/v1/tools/$name" "$change" >/dev/null
      answer=$(send POST "/v1/tools/$name/rotate_secret" '{}')
      ;;
  esac
  secret=$(printf '%s' "$answer" | sed -nE 's/.*"secret": *"([^"]*)".*/\1/p')
  if [ -z "$secret" ]; then
    printf 'Registering %s failed: %s\n' "$name" "$answer" >&2
    exit 1
  fi
  printf 'export %s_SECRET=%s\n' "$(printf %s "$name" | tr a-z A-Z)" "$secret"
done
