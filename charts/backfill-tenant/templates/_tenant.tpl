{{/* The objects of a tenant. The chart backfill-tenant has a copy of this file. */}}

{{/* The account, Role and binding of drivers in each watched namespace. */}}
{{- define "backfill.tenant.account" -}}
{{- range .Values.watch.namespaces }}
---
# The service account of drivers in {{ . }}.
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "backfill.account" $ | quote }}
  namespace: {{ . | quote }}
  labels: {{- include "backfill.labelsWith" (list $ ($.Values.tenant).serviceAccountLabels) | nindent 4 }}
  {{- with ($.Values.tenant).serviceAccountAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- with ($.Values.images).pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "backfill.account" $ | quote }}
  namespace: {{ . | quote }}
  labels: {{- include "backfill.labels" $ | nindent 4 }}
rules:
  {{- $.Files.Get "files/driver-rules.yaml" | nindent 2 }}
  {{- if ($.Values.tenant).persistentVolumeClaims }}
  {{- $.Files.Get "files/claim-rules.yaml" | nindent 2 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "backfill.account" $ | quote }}
  namespace: {{ . | quote }}
  labels: {{- include "backfill.labels" $ | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "backfill.account" $ | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ include "backfill.account" $ | quote }}
    namespace: {{ . | quote }}
{{- end }}
{{- end }}

{{/* The network policies of drivers and executors in each watched namespace. */}}
{{- define "backfill.tenant.network" -}}
{{- if include "backfill.on" (.Values.networkPolicy).enabled }}
{{- /* Values of an older release lack it: the connections of its jobs stay unrestricted. */}}
{{- $egress := (.Values.networkPolicy).egress | default (dict "enabled" false) }}
{{- $limited := include "backfill.on" $egress.enabled }}
{{- $types := empty $limited | ternary "[Ingress]" "[Ingress, Egress]" }}
{{- range .Values.watch.namespaces }}
---
# Only the operator and executors may connect to a driver. A kubelet's probes come from the node and are always allowed.
# A driver serves metrics and commands on the same port, and both require the attempt's token.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $.Release.Name }}-drivers
  namespace: {{ . | quote }}
  labels: {{- include "backfill.labels" $ | nindent 4 }}
spec:
  podSelector:
    matchLabels: {backfill.dev/role: driver}
  policyTypes: {{ $types }}
  ingress:
    - from:
        - namespaceSelector:
            matchLabels: {kubernetes.io/metadata.name: {{ $.Release.Namespace | quote }}}
          podSelector:
            matchLabels: {{- include "backfill.selector" $ | nindent 14 }}
        {{- with ($.Values.networkPolicy).metricsFrom }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {protocol: TCP, port: 8443}
    - from:
        - podSelector:
            matchLabels: {backfill.dev/role: executor}
      ports:
        - {protocol: TCP, port: 7078}
        - {protocol: TCP, port: 7079}
    {{- /* A rule without peers would allow all. */}}
    {{- with ($.Values.networkPolicy).sparkUiFrom }}
    - from: {{- toYaml . | nindent 8 }}
      ports:
        - {protocol: TCP, port: 4040}
    {{- end }}
  {{- if $limited }}
  egress:
    - to:
        - podSelector:
            matchLabels: {backfill.dev/role: executor}
      ports:
        - {protocol: TCP, port: 7079}
    {{- include "backfill.egress" $egress | nindent 4 }}
    {{- with $egress.apiServer }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
---
# Executors serve blocks to each other and to their driver, and accept no other peer. They do not need the API server.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $.Release.Name }}-executors
  namespace: {{ . | quote }}
  labels: {{- include "backfill.labels" $ | nindent 4 }}
spec:
  podSelector:
    matchLabels: {backfill.dev/role: executor}
  policyTypes: {{ $types }}
  ingress:
    - from:
        - podSelector:
            matchExpressions: [{key: backfill.dev/role, operator: In, values: [driver, executor]}]
      ports:
        - {protocol: TCP, port: 7079}
  {{- if $limited }}
  egress:
    - to:
        - podSelector:
            matchLabels: {backfill.dev/role: driver}
      ports:
        - {protocol: TCP, port: 7078}
        - {protocol: TCP, port: 7079}
    - to:
        - podSelector:
            matchLabels: {backfill.dev/role: executor}
      ports:
        - {protocol: TCP, port: 7079}
    {{- include "backfill.egress" $egress | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The quota of Backfills in each watched namespace, if it is enabled. */}}
{{- define "backfill.tenant.quota" -}}
{{- with ((.Values.tenant).quota) }}
{{- if .enabled }}
{{- $hard := .hard }}
{{- range $.Values.watch.namespaces }}
---
apiVersion: v1
kind: ResourceQuota
metadata:
  name: {{ $.Release.Name | quote }}
  namespace: {{ . | quote }}
  labels: {{- include "backfill.labels" $ | nindent 4 }}
spec:
  hard:
    {{- range $name, $value := $hard }}
    {{ $name }}: {{ include "backfill.text" $value | quote }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The rules of the operator in a namespace with Backfills. */}}
{{- define "backfill.tenant.rules" -}}
{{- .Files.Get "files/operator-rules.yaml" }}
{{- if eq (toString (.Values.queues).enabled) "true" }}
{{- .Files.Get "files/queue-rules.yaml" | nindent 0 }}
{{- end }}
{{- end }}

{{/* The Role of the operator in each watched namespace, and its binding. */}}
{{- define "backfill.tenant.operator" -}}
{{- range .Values.watch.namespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $.Release.Name | quote }}
  namespace: {{ . | quote }}
  labels: {{- include "backfill.labels" $ | nindent 4 }}
rules: {{- include "backfill.tenant.rules" $ | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $.Release.Name | quote }}
  namespace: {{ . | quote }}
  labels: {{- include "backfill.labels" $ | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $.Release.Name | quote }}
subjects: {{- include "backfill.subjects" $ | nindent 2 }}
{{- end }}
{{- end }}
