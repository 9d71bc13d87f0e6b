# syntax=docker/dockerfile:1

# Two stages: the compiler stays behind. The result holds one program, the C library that it was
# linked with, and the certificates of public authorities; nothing in it runs as root.
#
# Images that are to be kept are built with `--build-arg COUNTED=yes`: then the program is built twice,
# the second time with what the first one counted under load over all databases (see `cargo xtask dist`
# in docs/BENCHMARKS.md). That takes three times as long, and spares a tenth of the CPU.

FROM rust:1.95-slim-bookworm AS build
ARG COUNTED=no
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential \
    && if [ "$COUNTED" = yes ]; then apt-get install --yes --no-install-recommends \
        mariadb-server postgresql redis-server && rustup component add llvm-tools; fi \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    if [ "$COUNTED" = yes ]; then cargo xtask dist; \
    else cargo build --profile dist --locked --bin ashlar \
        && install -D target/dist/ashlar target/shipped/ashlar; fi \
    && install -D --strip target/shipped/ashlar /image/usr/local/bin/ashlar \
    && install --directory --owner=65532 --group=65532 --mode=0700 /image/data

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /image/ /
# Named as a number, so that an orchestrator can prove that it is not root.
USER 65532:65532
# All state is below /data; the root file system may be read-only.
VOLUME /data
WORKDIR /data
ENV ASHLAR_DATA_DIR=/data
EXPOSE 9700
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["/usr/local/bin/ashlar", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/ashlar"]
CMD ["serve", "--listen", "0.0.0.0:9700"]
