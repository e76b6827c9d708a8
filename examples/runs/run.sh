#!/bin/sh
# Start a run, follow its events, approve its calls, and print the answer, with curl, grep and sed.
#
#     RUNWARD_KEY=rw_… examples/runs/run.sh
#
# It names the tools `lookup_order` and `refund`, which `make run` registers.
set -eu
url=${RUNWARD_URL:-http://127.0.0.1:8080}
: "${RUNWARD_KEY:?is not set}"
auth="Authorization: Bearer $RUNWARD_KEY"
json='Content-Type: application/json'

# The same key and body create only one run, so this request is safe to retry.
run=$(curl -sS --fail-with-body "$url/v1/runs" -H "$auth" -H "$json" \
  -H "Idempotency-Key: $(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" -d '{
    "model": "offline:rules",
    "tools": ["lookup_order", "refund"],
    "input": "lookup_order(order=\"A-1017\") refund(order=\"A-1017\", amount=50) refund(order=\"A-1018\", amount=500)"
  }' | grep -o 'run_[0-9a-f]\{32\}' | head -n 1)
echo "started $run"

# The stream ends with the run. After a break it would be opened again with the header
# `Last-Event-ID: N`, where N is the last `id:` that came.
curl -sSN --fail-with-body "$url/v1/runs/$run/events" -H "$auth" -H 'Accept: text/event-stream' |
  while IFS= read -r line; do
    case $line in
      'id: '*) number=${line#id: } ;;
      'event: '*) type=${line#event: } ;;
      'data: '*)
        # Events without an ID are transient: parts of a text that a later event has complete.
        if [ -z "${number:-}" ]; then continue; fi
        printf '%6s  %s\n' "$number" "$type"
        if [ "$type" = tool_call.approval_requested ]; then
          approval=$(echo "$line" | grep -o 'apr_[0-9a-f]\{32\}' | head -n 1)
          # The digest identifies the call's arguments: a changed call would be refused.
          digest=$(echo "$line" | grep -o 'sha256:[0-9a-f]\{64\}' | head -n 1)
          curl -sS --fail-with-body "$url/v1/approvals/$approval/decision" -H "$auth" -H "$json" \
            -d "{\"decision\": \"approve\", \"digest\": \"$digest\"}" >/dev/null
          echo "        approved $approval"
        fi
        ;;
      '') number='' ;;
    esac
  done

curl -sS --fail-with-body "$url/v1/runs/$run" -H "$auth"
echo
