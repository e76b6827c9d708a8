"""A browser without a window: it opens the page URL and follows its redirects."""

import sys

import httpx2

if __name__ == "__main__":
    httpx2.get(sys.argv[1], follow_redirects=True, trust_env=False, timeout=30)
