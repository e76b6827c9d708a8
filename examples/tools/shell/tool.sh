# Read one request from standard input and write one response to standard output. Log lines go to
# standard error. serve.sh starts this script for every connection.
#
# The signature is checked first. After that the arguments are known to match
# the schema that the tool was registered with, since Runward sends no others: an order has letters,
# digits and a dash, an amount is a number. That is why sed can extract them from the JSON here. A
# tool with other arguments needs jq.
set -eu
umask 077
body=$(mktemp)
trap 'rm -f "$body" "$body".*' EXIT

answer() { # status, JSON
  printf 'HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \
    "$1" "${#2}" "$2"
  exit 0
}

refuse() {
  echo "$path refused: $1" >&2
  answer '401 Unauthorized' '{"error": "the signature is not valid"}'
}

# Standard Webhooks: v1, and the base64 of an HMAC-SHA-256 over id, timestamp and body.
signature() { # secret
  local key
  key=$(printf %s "${1#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
  { printf '%s.%s.' "$id" "$sent_at" && cat "$body"; } |
    openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64 -w0
}

is_signed() { # secrets
  local secret given right
  for secret in $1; do
    right=$(signature "$secret" | sha256sum)
    for given in $signatures; do
      # Comparing hashes does not reveal through timing how much of a signature matches.
      if [ "$(printf %s "${given#v1,}" | sha256sum)" = "$right" ]; then return 0; fi
    done
  done
  return 1
}

argument() { # name
  sed -nE 's/.*[{,] *"arguments": *\{([^{}]*)\}.*/\1/p' "$body" |
    sed -nE "s/.*\"$1\": *\"?([A-Za-z0-9.+-]+)\"?.*/\1/p"
}

read -r method path _
length=0 id='' sent_at='' signatures=''
while IFS= read -r line; do
  line=${line%$'\r'}
  [ -n "$line" ] || break
  value=${line#*: }
  name=${line%%:*}
  case ${name,,} in
    content-length) length=$value ;;
    webhook-id) id=$value ;;
    webhook-timestamp) sent_at=$value ;;
    webhook-signature) signatures=$value ;;
  esac
done
head -c "$length" >"$body"

case "$method $path" in
  'POST /lookup_order') secrets=${LOOKUP_ORDER_SECRET:-} ;;
  'POST /refund') secrets=${REFUND_SECRET:-} ;;
  *) answer '404 Not Found' '{"error": "no such tool"}' ;;
esac
case $sent_at in '' | *[!0-9]*) refuse 'no timestamp' ;; esac
age=$(($(date +%s) - sent_at))
if [ "${age#-}" -gt 300 ]; then refuse 'too old'; fi
is_signed "$secrets" || refuse 'the signature is not valid'
grep -q '"type": *"tool_call"' "$body" || answer '200 OK' '{}' # a notice, such as a cancelled call

order=$(argument order)
case $path in
  /lookup_order)
    case $order in
      A-1017) result='{"order": "A-1017", "item": "Desk lamp", "paid": 89, "delivered": true}' ;;
      A-1018) result='{"order": "A-1018", "item": "Standing desk", "paid": 640, "delivered": true}' ;;
      A-1019) result='{"order": "A-1019", "item": "Office chair", "paid": 310, "delivered": false}' ;;
      *) result="{\"is_error\": true, \"error\": \"There is no order $order.\"}" ;;
    esac
    echo "$path $order" >&2
    ;;
  /refund)
    # The call's ID makes retries safe: only the first call with an ID creates the file, and all
    # calls get its content as their answer. No refund is made twice.
    printf '{"refund": "R-%s", "order": "%s", "amount": %s, "currency": "EUR"}' \
      "$(printf %s "$id" | sha256sum | head -c 6)" "$order" "$(argument amount)" >"$body.result"
    ln "$body.result" "$REFUNDS/${id//[!A-Za-z0-9_-]/}" 2>"$body.twice" || true
    result=$(cat "$REFUNDS/${id//[!A-Za-z0-9_-]/}")
    echo "$path $result" >&2
    ;;
esac
answer '200 OK' "$result"
