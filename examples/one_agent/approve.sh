#!/bin/sh
# Wait until a tool call requires approval, print the call, and approve it. It needs curl, grep and sed.
#
#     RUNWARD_KEY=rw_… examples/one_agent/approve.sh
set -eu
url=${RUNWARD_URL:-http://127.0.0.1:8080}
: "${RUNWARD_KEY:?is not set}"
auth="Authorization: Bearer $RUNWARD_KEY"

approval=''
until [ -n "$approval" ]; do
  sleep 0.2
  pending=$(curl -sS --fail-with-body "$url/v1/approvals?status=pending&limit=1" -H "$auth")
  approval=$(echo "$pending" | grep -o 'apr_[0-9a-f]\{32\}' | head -n 1 || true)
done
echo "Approving: $(echo "$pending" | sed 's/.*"tool":"\([^"]*\)".*"arguments":\({[^}]*}\).*/\1 \2/')"
curl -sS --fail-with-body "$url/v1/approvals/$approval/decision" -H "$auth" \
  -H 'Content-Type: application/json' -d '{"decision": "approve"}' >/dev/null
