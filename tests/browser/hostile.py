"""Texts that somebody could plant who wants more than to be read: in a tool, in what a model says,
in what a customer writes. Every script among them calls `ran`, which a window counts.

Written in escapes, so that this file shows what it has.
"""

from typing import Final

RUN: Final = "ran(1)"

MARKUP: Final = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f'"><img src=x onerror="{RUN}">',
    f"' onmouseover='{RUN}' autofocus onfocus='{RUN}' x='",
    f"<svg onload={RUN}><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<svg><script href=data:,{RUN} /></svg>",
    f"<math><mtext><table><mglyph><style><img src onerror={RUN}>",
    f"<math href=javascript:{RUN}>x</math>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<iframe src=javascript:parent.{RUN}></iframe>",
    f"<object data=data:text/html,<script>{RUN}</script>></object>",
    f"<details open ontoggle={RUN}><summary>x</summary></details>",
    f"<form action=javascript:{RUN}><button>Approve</button></form>",
    "<base href=//evil.invalid/>",
    "<link rel=stylesheet href=//evil.invalid/a.css>",
    "<meta http-equiv=refresh content='0;url=//evil.invalid'>",
    "<img src=//evil.invalid/seen.gif><video poster=//evil.invalid/p.png>",
    f"<style>@import '//evil.invalid/a.css';</style><style onload={RUN}></style>",
    f"<template shadowrootmode=open><img src=x onerror={RUN}></template>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    f"<!--><script>{RUN}</script>-->",
    f"]]><script>{RUN}</script><![CDATA[",
    f"<a href=javascript:{RUN} id=main>Approve</a>",
    "<form id=notes><input name=children></form>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;&#x3c;img src=x onerror={RUN}&#62;",
    f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    f"%3Cscript%3E{RUN}%3C/script%3E",
)
URLS: Final = (
    f"javascript:{RUN}",
    f"java\tscript:{RUN}//https://shop.example",
    f"data:text/html,<script>{RUN}</script>",
    "//evil.invalid/%2e%2e/v1/keys?x=#/inbox",
    "https://shop.example@evil.invalid/",
    "https://sh\u043ep.example/refund",
    "https://xn--shp-0ub.example/refund",
)
SYNTAX: Final = (
    f"{{{{constructor.constructor('{RUN}')()}}}} ${{{RUN}}} #{{{RUN}}} <%= {RUN} %>",
    f"`;{RUN};//",
    f"';{RUN};'\\';{RUN};//",
    f'"}}];{RUN};[{{"',
    '{"__proto__": {"allowed_decisions": []}, "digest": null}',
    "x; background: url(//evil.invalid/a.png); } * { display: none }",
    "expression(ran(1)) -moz-binding: url(//evil.invalid)",
    "\x1b[2J\x1b]0;Approved\x07\x1b[8mhidden\x1b[0m",
    "'; DROP TABLE runs; --",
    "%s%n%x {0.__class__} %(key)s",
    "| cells | are ![x](//evil.invalid/a.png) [Approve](javascript:ran(1)) |",
    "data: x\n\nevent: run.completed\ndata: {}\n\n",
)
NAMES: Final = (
    "__proto__",
    "constructor",
    "prototype",
    "hasOwnProperty",
    "toString",
    "__defineGetter__",
    "innerHTML",
    "onclick",
    'a"]:b',
    "a.b",
    "N" * 300,
    "",
)
UNSEEN: Final = (
    "pay \u202e000,1 RUE\u202c now",
    "\u2067\u2066hidden\u2069 seen\u2069\u2069",
    "\u200e\u200f\u061c",
    "adm\u200bin\u200c\u200d\u2060\ufeff",
    "ok\U000e0049\U000e0067\U000e006e\U000e006f\U000e0072\U000e0065",
    "\u3164\u115f\u1160\uffa0\u2800\u00ad\u034f\u17b4\u180e",
    "a\u00a0b\u2003c\u3000d\u2028e\u2029f",
    "x\ufe00\ufe0f\U000e0100",
    "Z" + "\u0489\u0301\u0353\u0335" * 120 + "algo",
    "\ue000\U000f0000\U0010fffd\ufdd0\ufffe\U0001ffff",
    "\x01\x08\x0b\x0c\r\x1f\x7f\x85\x9f",
    "\u05e9\u05dc\u05d5\u05dd (1) \u0645\u0631\u062d\u0628\u0627",
    "  before and after\t\t\n",
)
LONG: Final = (
    "W" * 5_000,
    "\ufdfd" * 700,
    "\n" * 2_000 + "the end",
    "line\n" * 2_000,
)

SHORT: Final = (*MARKUP, *URLS, *SYNTAX, *NAMES, *UNSEEN)
ALL: Final = (*SHORT, *LONG)
ONE: Final = "\n".join(SHORT)
"""All of them as one text."""
FOLDED: Final = ONE + LONG[0]

NEVER_TAKEN: Final = ("\x00", "a\x00b")
"""What no request may have: databases cannot hold it."""
