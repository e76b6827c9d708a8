"""URLs of internal addresses: all the forms in which a forbidden address can be written.

The resolver of the tests resolves every name to 127.0.0.1. Therefore a host is refused either in
the form in which it is written or for its address.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Final

BASES: Final = ("127.0.0.1", "169.254.169.254")
PLAIN: Final = (
    *("127.0.0.1", "127.0.0.2", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255"),
    *("192.168.1.1", "169.254.169.254", "169.254.170.2", "169.254.169.123", "100.100.100.200"),
    *("168.63.129.16", "192.0.0.192", "100.64.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1"),
    *("255.255.255.255", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1"),
    *("[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[fe80::1]", "[fe80::1%25lo]"),
    *("[fe80::1%lo]", "[::1%25lo]", "[fc00::1]", "[fd00::1]", "[fd00:ec2::254]", "[fd20:ce::254]"),
    *("[ff02::1]", "[fec0::1]", "[2001:db8::1]", "[100::1]", "[3fff::1]", "[5f00::1]"),
    *("[2001:10::1]", "[2620:4f:8000::1]", "[::1", "::1]", "::1", "[v1.::1]", "[]", "[:::1]"),
)
NAMES: Final = (
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "ip6-localhost", "metadata"),
    *("metadata.google.internal", "instance-data", "instance-data.ec2.internal", "localtest.me"),
    *("127.0.0.1.nip.io", "7f000001.rbndr.us", "xn--pple-43d.example", "kubernetes.default.svc"),
    *("host.docker.internal", "_", "a_b.example", "1.2.3.4.5.example", "0x7f.example"),
)
REFUSED_TEXTS: Final = (
    *(
        "localhost%00.example",
        "local\u00adhost",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "loc%61lhost",
        "localhost..",
        ".localhost",
    ),
    *("-localhost", "localhost-", "*.example", "a" * 64 + ".example", "localhost%2eexample", "a,b"),
)
WITHOUT_A_PORT: Final = (
    *("file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:6379/_x", "dict://127.0.0.1/"),
    *("ldap://127.0.0.1/", "unix:///run/postgresql", "jar:http://127.0.0.1!/", "data:,x"),
    *("javascript:alert(1)", "//127.0.0.1/", "http:127.0.0.1", "http:/127.0.0.1", "http://"),
    *("http:///127.0.0.1", "ws://127.0.0.1/", "h2c://127.0.0.1/", " http://127.0.0.1/", "http"),
    *(
        "http://public.example:22/",
        "http://public.example:25/",
        "https://public.example:0/",
        "http://public.example:65536/",
    ),
    *(
        "http://public.example:99999/",
        "http://public.example:+80/",
        "http://public.example:-1/",
        "http://public.example:8\u0660/",
    ),
    *(
        "http://public.example:80:80/",
        "http://public.example/#x",
        "http://public.example/\\",
        "http://public.example/ x",
    ),
    *(
        "http://public.example/\r\nHost: x",
        "http://public.example/\t",
        'http://public.example/"',
        "http://public.example/é",
    ),
)


def urls(port: int) -> list[str]:
    """`port`: that of listeners on 127.0.0.1, 127.0.0.2 and ::1."""
    hosts = [*PLAIN, *NAMES, *REFUSED_TEXTS]
    for base in BASES:
        hosts += [*as_numbers(base), *in_other_scripts(base), *inside_ipv6(base)]
    found = [f"http://{host}:{port}/" for host in hosts]
    found += [url for base in BASES for url in with_user(base, port)]
    found += [f"https://{BASES[0]}/", f"HTTP://{BASES[0]}:{port}/", *WITHOUT_A_PORT]
    return list(dict.fromkeys(found))


def as_numbers(address: str) -> Iterator[str]:
    """As the resolvers of some systems read it (inet_aton)."""
    number = int(IPv4Address(address))
    a, b, c, d = (int(part) for part in address.split("."))
    yield from (str(number), hex(number), hex(number).upper(), f"0{number:o}", str(number + 2**32))
    yield ".".join(hex(part) for part in (a, b, c, d))
    yield ".".join(f"0{part:o}" for part in (a, b, c, d))
    yield ".".join(f"{part:03d}" for part in (a, b, c, d))
    yield from (f"{a}.{number & 0xFFFFFF}", f"{a}.{b}.{number & 0xFFFF}", f"0x{a:x}.{b}.0{c:o}.{d}")
    yield from (f"{a + 256}.{b}.{c}.{d}", f"{address}.", f"{address}..", f"[{address}]")


def in_other_scripts(address: str) -> Iterator[str]:
    """As IDNA, URL decoding or trimming would turn it into the address."""
    wide = "".join(chr(ord(one) + 0xFEE0) for one in address)
    yield from (wide, address.replace(".", "\u3002"), address.replace(".", "\uff61"))
    yield from (address.replace("1", "\u2460"), address.replace("1", "\u0661"))
    yield "".join(f"%{ord(one):02x}" for one in address)
    yield from (address.replace(".", "%2e"), f"{address}%00", f"{address}%20", f"\u200b{address}")
    yield from (f"{address}\u0000.example", f"{address} ", f"{address}\t", f"{address}%lo")


def inside_ipv6(address: str) -> Iterator[str]:
    number = int(IPv4Address(address))
    high, low = f"{number >> 16:x}", f"{number & 0xFFFF:x}"
    inverted = f"{number >> 16 ^ 0xFFFF:x}:{number & 0xFFFF ^ 0xFFFF:x}"
    yield from (f"[::ffff:{address}]", f"[::ffff:{high}:{low}]", f"[0:0:0:0:0:ffff:{high}:{low}]")
    yield from (f"[::{address}]", f"[::ffff:0:{address}]", f"[64:ff9b::{address}]")
    yield from (f"[64:ff9b:1::{address}]", f"[2002:{high}:{low}::1]", f"[fe80::5efe:{address}]")
    yield f"[2001:0:4136:e378:8000:63bf:{inverted}]"


def with_user(address: str, port: int) -> Iterator[str]:
    """Where two parsers may see different hosts."""
    inside = f"{address}:{port}"
    yield from (f"http://example.com@{inside}/", f"http://user:password@{inside}/")
    yield from (f"http://{inside}\\@example.com/", f"http://example.com\\@{inside}/")
    yield from (f"http://{inside}#@example.com/", f"http://example.com#@{inside}/")
    yield from (f"http://{inside}%40example.com/", f"http://example.com%2f@{inside}/")
