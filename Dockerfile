# Runward without the embedded PostgreSQL: it needs DATABASE_URL. See docs/how-to/deploying.md#build-the-image.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# The packages to install. requirements-image-core.lock omits the libraries for Anthropic, Google and Amazon Bedrock.
ARG LOCK=requirements-image.lock
# pip reads this variable. If it is empty, pip uses PyPI.
ARG PIP_INDEX_URL
# The certificates of the package index in PEM format, if it has none of a public authority.
ARG CA_BUNDLE
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements-image*.lock ./
# Of botocore's descriptions of hundreds of services, keep those of Bedrock, of KMS, and of STS, from which pods get
# the credentials of their role.
RUN python3 -m venv --without-pip /opt/venv \
  && if [ -n "$CA_BUNDLE" ]; then printf '%s\n' "$CA_BUNDLE" > /tmp/ca.pem && export PIP_CERT=/tmp/ca.pem; fi \
  && if [ -z "$PIP_INDEX_URL" ]; then unset PIP_INDEX_URL; fi \
  && python3 -m pip --python /opt/venv/bin/python install --require-hashes --no-deps --requirement "$LOCK" \
  && find /opt/venv -path '*/botocore/data/*' -prune -type d ! -name bedrock-runtime ! -name kms ! -name sts -exec rm -r {} +
WORKDIR /srv/runward
COPY app app
COPY migrations migrations
COPY LICENSE .
# Readable for the container's user, whatever umask the checkout had.
RUN /opt/venv/bin/python -m compileall -q app migrations && chmod -R a+rX .

FROM ${BASE}
RUN groupadd --gid 10001 runward \
  && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin runward \
  && rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/ensurepip /usr/local/lib/python3*/site-packages/pip*
COPY --from=build /opt/venv /opt/venv
COPY --from=build /srv/runward /srv/runward
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/srv/runward/app PYTHONUNBUFFERED=1 RUNWARD_HOST=0.0.0.0 RUNWARD_PORT=8080
WORKDIR /srv/runward
# Python's image has no bytecode of the standard library, and the container cannot write any: without
# this, each health check takes 0.3 s of CPU time more.
RUN python -c "import runward.serve, urllib.request"
USER 10001:10001
EXPOSE 8080
# Longer than RUNWARD_DRAIN_SECONDS must be the time that `docker stop` gives: see docker-compose.yml.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["python", "-c", \
  "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"RUNWARD_PORT\"]}/readyz', timeout=4)"]
CMD ["python", "-m", "runward", "serve"]
