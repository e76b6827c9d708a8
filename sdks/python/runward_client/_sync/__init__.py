# Generated from _async by sdks/python/scripts/generate.py. Do not edit.
