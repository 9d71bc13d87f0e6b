# syntax=docker/dockerfile:1

# Two stages: the compiler stays behind. The result holds one program, the C library that it was
# linked with, and the certificates of public authorities; nothing in it runs as root.

FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --profile dist --locked --bin ashlar \
    && install -D --strip target/dist/ashlar /image/usr/local/bin/ashlar \
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
