#!/bin/bash
# Two tools for Runward in plain shell: bash, coreutils, sed, openssl, and the perl of every Debian.
#
#     LOOKUP_ORDER_SECRET=whsec_… REFUND_SECRET=whsec_… PORT=9000 examples/tools/shell/serve.sh
#
# bash cannot listen on a port, so ten lines of perl do: for every connection they start tool.sh
# with the socket as its standard input and output, as inetd used to. tool.sh is the tool.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
REFUNDS=${REFUNDS:-$(mktemp -d)} # what was refunded, one file a call
export REFUNDS

exec perl -MIO::Socket::INET -e '
  $SIG{CHLD} = "IGNORE";
  my ($port, @tool) = @ARGV;
  my $door = IO::Socket::INET->new(
    LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 128, ReuseAddr => 1
  ) or die "cannot listen on $port: $!\n";
  $| = 1;
  printf "Listening on http://127.0.0.1:%d\n", $door->sockport;
  while (1) {
    my $guest = $door->accept or next;
    if (!fork) {
      $SIG{CHLD} = "DEFAULT";
      open STDIN, "<&", $guest and open STDOUT, ">&", $guest and exec @tool;
      die "cannot start @tool: $!\n";
    }
    close $guest;
  }
' "${PORT:-9000}" bash "$here/tool.sh"
