#!/bin/sh
# Sets the project's policy to policy.json, for a server of yours at URL:
#
#     RUNWARD_KEY=rw_… examples/guards/set.sh http://127.0.0.1:9100
#
# Creates a new signing secret and prints it as a shell variable. It is shown only once, so store it:
#
#     eval "$(examples/guards/set.sh http://127.0.0.1:9100)"
set -eu
url=${1:?where the guards are, such as http://127.0.0.1:9100}
api=${RUNWARD_URL:-http://127.0.0.1:8080}
: "${RUNWARD_KEY:?is not set: an API key with the scope tools:write}"
here=$(cd "$(dirname "$0")" && pwd)

send() { # method, path; the body on standard input
  curl -sS -X "$1" "$api$2" --data-binary @- \
    -H "Authorization: Bearer $RUNWARD_KEY" -H 'Content-Type: application/json'
}

policy=$(sed "s|\"URL/|\"$url/|" "$here/policy.json" | send PUT /v1/policy)
case $policy in
  *'"object":"policy"'*) ;;
  *) printf 'Setting the policy failed: %s\n' "$policy" >&2; exit 1 ;;
esac
answer=$(curl -sS -X POST "$api/v1/signing_secret/rotate" -H "Authorization: Bearer $RUNWARD_KEY")
secret=$(printf '%s' "$answer" | sed -nE 's/.*"secret": *"([^"]*)".*/\1/p')
if [ -z "$secret" ]; then
  printf 'Making a secret failed: %s\n' "$answer" >&2
  exit 1
fi
printf 'export GUARDS_SECRET=%s\n' "$secret"
