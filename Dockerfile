# The lessons in JupyterLab. Our tests never build it. The port is published on this machine only, and needs the token:
#   docker build --tag alibi-viz . && docker run --rm --publish 127.0.0.1:8888:8888 alibi-viz
FROM python:3.11-slim
# PyTorch's CPU builds; others bring gigabytes for GPUs (with a GPU: `--build-arg TORCH_INDEX=`). `make` reads it too.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV TORCH_INDEX=$TORCH_INDEX
RUN apt-get update && apt-get install --yes --no-install-recommends make chromium && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home reader
WORKDIR /home/reader/alibi_viz
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt ${TORCH_INDEX:+--extra-index-url $TORCH_INDEX} '.[lab]' \
    && chown --recursive reader .
USER reader
CMD ["jupyter", "lab", "notebooks", "--ip=0.0.0.0", "--port=8888", "--no-browser", \
     "--LabApp.default_url=/lab/tree/00_start_here.ipynb"]
