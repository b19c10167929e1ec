# A server without torch, for models that the native library takes:
#     docker build -t mtkit .
#     docker run --read-only --tmpfs /tmp -p 127.0.0.1:5000:5000 -v ./runs/en-de/model:/models/en-de:ro mtkit --no-keys /models/en-de
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY . /mtkit
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /mtkit

FROM python:3.12-slim
RUN pip install --no-cache-dir --no-compile numpy sentencepiece typer pyyaml py3langid starlette uvicorn python-multipart prometheus-client
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels pip install --no-cache-dir --no-compile --no-deps /wheels/*.whl
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
EXPOSE 5000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
ENTRYPOINT ["mtkit", "serve", "--host", "0.0.0.0"]
