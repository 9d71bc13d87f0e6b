{{/* The name of all objects of the release. */}}
{{- define "ashlar.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels that select the pods. */}}
{{- define "ashlar.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of all objects. */}}
{{- define "ashlar.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "ashlar.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The name of the Secret with the credentials. */}}
{{- define "ashlar.secret" -}}
{{- .Values.existingSecret | default (include "ashlar.name" .) -}}
{{- end -}}

{{/* "true" if the gateway needs a disk. */}}
{{- define "ashlar.disk" -}}
{{- if or (not .Values.meta) (not .Values.blocks) -}}true{{- end -}}
{{- end -}}

{{/* Refuses values that cannot work together. */}}
{{- define "ashlar.check" -}}
{{- if and (gt (int .Values.replicas) 1) (include "ashlar.disk" .) -}}
{{- fail "replicas: several gateways need meta (a database) and blocks (a bucket), because SQLite and a folder have one process" -}}
{{- end -}}
{{- if not .Values.existingSecret -}}
{{- if or (not .Values.secret.rootUser) (not .Values.secret.rootPassword) -}}
{{- fail "secret: give existingSecret, or secret.rootUser and secret.rootPassword; there is no default password" -}}
{{- end -}}
{{- if and (not (include "ashlar.disk" .)) (not .Values.secret.masterKey) -}}
{{- fail "secret.masterKey: without a disk each pod would make a key of its own; `openssl rand -hex 32` prints one" -}}
{{- end -}}
{{- end -}}
{{- end -}}
