{{- define "runward.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride }}
{{- else if contains "runward" .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-runward" (.Release.Name | trunc 42 | trimSuffix "-") }}
{{- end }}
{{- end }}

{{/* The labels of the selectors, which cannot be changed in an upgrade. Argument: (list $ "api"). */}}
{{- define "runward.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: runward
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with last . }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{/* Argument: (list $ "api"). */}}
{{- define "runward.labels" -}}
{{- $root := first . -}}
{{ include "runward.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "runward.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "runward.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "runward.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{/* The variables are part of the pods, so a change restarts the pods. */}}
{{- define "runward.env" }}
{{- $url := required "Set config.RUNWARD_PUBLIC_URL to the address at which clients and tools reach the API." .Values.config.RUNWARD_PUBLIC_URL }}
{{- $hosts := printf "%s,%s-api,*.svc,*.svc.cluster.local" (urlParse $url).hostname (include "runward.fullname" .) }}
{{- range $name, $value := merge (dict "RUNWARD_ALLOWED_HOSTS" (.Values.config.RUNWARD_ALLOWED_HOSTS | default $hosts)) .Values.config }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "runward.secrets" }}
{{- range $name := list "DATABASE_URL" "RUNWARD_SECRET_KEY" }}
{{- $_ := required (printf "Set existingSecret, or set secrets.%s." $name) (get $.Values.secrets $name) }}
{{- end }}
{{- range $name, $value := .Values.secrets }}
{{ $name }}: {{ $value | b64enc }}
{{- end }}
{{- end }}

{{- define "runward.podSecurity" -}}
automountServiceAccountToken: false
# A Service named `runward` would otherwise set variables such as RUNWARD_PORT.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - { name: tmp, emptyDir: { sizeLimit: 256Mi } }
{{- with .Values.extraVolumes }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}

{{- define "runward.containerSecurity" -}}
image: {{ include "runward.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
volumeMounts:
  - { name: tmp, mountPath: /tmp }
{{- with .Values.extraVolumeMounts }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}

{{/* If the database is unavailable, a process waits for it. Only /livez may cause a restart. Argument: the port. */}}
{{- define "runward.probes" -}}
startupProbe:
  httpGet: { path: /livez, port: {{ . }} }
  periodSeconds: 2
  failureThreshold: 30
livenessProbe:
  httpGet: { path: /livez, port: {{ . }} }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: { path: /readyz, port: {{ . }} }
  periodSeconds: 5
  timeoutSeconds: 4
{{- end }}

{{/* Argument: (list $ "api"). */}}
{{- define "runward.spread" -}}
topologySpreadConstraints:
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "runward.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
