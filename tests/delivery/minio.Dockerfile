# MinIO's program of the test run, as compose.yaml expects it in MINIO_IMAGE: with wget, and a folder
# that its user may write.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends wget \
    && rm -rf /var/lib/apt/lists/*
COPY minio /usr/local/bin/minio
RUN install -d -o 1000 -g 1000 /data /data/blocks
USER 1000:1000
ENTRYPOINT ["/usr/local/bin/minio"]
