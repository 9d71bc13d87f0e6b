# syntax=docker/dockerfile:1

# Two stages: the compiler stays behind. The result holds one program, the C library that it was
# linked with, and the certificates of public authorities; nothing in it runs as root.
#
# Images that are to be kept are built with `--build-arg COUNTED=yes`: then the program is built twice,
# the second time with what the first one counted under load over all databases (see `cargo xtask dist`
# in docs/BENCHMARKS.md). That takes three times as long, and spares a tenth of the CPU. The labels
# and `ashlar version` name a release with these arguments:
#
#   docker build --build-arg VERSION=1.0.0 --build-arg REVISION=$(git rev-parse HEAD) \
#       --build-arg CREATED=$(git log -1 --format=%cI) .

FROM rust:1.95-slim-bookworm AS build
ARG COUNTED=no
# Packages have no versions here: a version that Debian has replaced is not to be had any more.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential \
    && if [ "$COUNTED" = yes ]; then apt-get install --yes --no-install-recommends \
        mariadb-server postgresql redis-server && rustup component add llvm-tools; fi \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
ARG VERSION=
ARG REVISION=
ENV ASHLAR_BUILD_VERSION=${VERSION} ASHLAR_BUILD_COMMIT=${REVISION}
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    if [ "$COUNTED" = yes ]; then cargo xtask dist; \
    else cargo build --profile dist --locked --bin ashlar \
        && install -D target/dist/ashlar target/shipped/ashlar; fi \
    && install -D --strip target/shipped/ashlar /image/usr/local/bin/ashlar \
    && install --directory --owner=65532 --group=65532 --mode=0700 /image/data

FROM debian:bookworm-slim
# Logs and caches contain the time of the build; without them two builds give the same layer.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old \
        /var/cache/ldconfig/aux-cache /var/lib/dpkg/*-old /var/log/*.log /var/log/apt
COPY --from=build /image/ /
# A mount needs root, `--cap-add SYS_ADMIN` and `--device /dev/fuse`: see docs/OPERATING.md.
# Named as a number, so that an orchestrator can prove that it is not root.
USER 65532:65532
# All state is below /data; the root file system may be read-only.
VOLUME /data
WORKDIR /data
ENV ASHLAR_DATA_DIR=/data
# S3; metrics and status (`--admin-listen`); console and admin API (`--console-listen`).
EXPOSE 9700 9701 9702
# Builders that write the format of OCI drop this; compose.yaml has it again.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["/usr/local/bin/ashlar", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/ashlar"]
CMD ["serve", "--listen", "0.0.0.0:9700"]
# Last, so that another version does not build the layers above again.
ARG VERSION=
ARG REVISION=
ARG CREATED=
LABEL org.opencontainers.image.title="Ashlar" \
    org.opencontainers.image.description="S3 gateway and file system over a database and a bucket" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.created="${CREATED}" \
    org.opencontainers.image.base.name="docker.io/library/debian:bookworm-slim"
