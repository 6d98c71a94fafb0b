{{/* The labels by which the operator's pods are found. */}}
{{- define "backfill.selector" -}}
app.kubernetes.io/name: backfill-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The labels of every object of this chart. */}}
{{- define "backfill.labels" -}}
{{ include "backfill.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The operator's account, as a subject of a binding. */}}
{{- define "backfill.subjects" -}}
- kind: ServiceAccount
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* The name of what belongs to the cluster: releases of one name in two namespaces have their own. */}}
{{- define "backfill.clusterName" -}}
{{ .Release.Name }}-{{ .Release.Namespace }}
{{- end }}

{{/* Of bindings, those that give another installation's operator its rights, as JSON: where, and whose. Takes a list: the top, the bindings. */}}
{{- define "backfill.others" -}}
{{- $top := index . 0 -}}
{{- $found := list -}}
{{- range index . 1 -}}
{{- $release := index (.metadata.labels | default dict) "app.kubernetes.io/instance" | default "" -}}
{{- $system := index (first (.subjects | default (list dict))) "namespace" | default "" -}}
{{- $ours := eq (index (.metadata.labels | default dict) "app.kubernetes.io/name" | default "") "backfill-operator" -}}
{{- /* The account of drivers is bound in its own namespace, and an operator watches none but others. */ -}}
{{- if and $ours (ne $system (.metadata.namespace | default "")) (ne (printf "%s/%s" $system $release) (printf "%s/%s" $top.Release.Namespace $top.Release.Name)) -}}
{{- $found = append $found (dict "namespace" .metadata.namespace "name" .metadata.name "whose" (printf "release %s of namespace %s" $release $system)) -}}
{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end }}

{{/* Is a value true that is so by default? Empty: no. Values of an earlier release (`helm upgrade --reuse-values`) lack those that are new. */}}
{{- define "backfill.on" -}}
{{- ne (toString .) "false" | ternary "on" "" -}}
{{- end }}

{{/* Values that always are something, also where an earlier release lacks them. */}}
{{- define "backfill.replicas" -}}
{{ (.Values.operator).replicas | default 2 }}
{{- end }}
{{- define "backfill.operatorImage" -}}
{{ (.Values.images).operator | default "localhost/backfill-operator:dev" }}
{{- end }}
{{- define "backfill.sparkImage" -}}
{{ (.Values.images).spark | default "localhost/backfill-spark:dev" }}
{{- end }}
{{- define "backfill.account" -}}
{{ (.Values.tenant).serviceAccount | default "backfill-spark" }}
{{- end }}

{{/* A value as a variable holds it: lists separated by commas, whole numbers without an exponent. */}}
{{- define "backfill.text" -}}
{{- if kindIs "slice" . -}}
{{ join "," . }}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{ int64 . }}
{{- else -}}
{{ . }}
{{- end -}}
{{- end }}

{{/* Values that no schema can judge: each of them ends the installation with a sentence. */}}
{{- define "backfill.check" -}}
{{- if not (or (.Values.watch).clusterWide (.Values.watch).namespaces) -}}
{{- fail "watch.namespaces is empty: name the namespaces that have Backfills, or set watch.clusterWide=true" -}}
{{- end -}}
{{- if has .Release.Namespace (.Values.watch.namespaces | default list) -}}
{{- fail (printf "watch.namespaces holds %s, the operator's own: who may create pods there can act as the operator; install it in another one" .Release.Namespace) -}}
{{- end -}}
{{- $times := (.Values.operator).settings | default dict -}}
{{- include "backfill.below" (list $times "leaseRetrySeconds" 2 "leaseRenewDeadlineSeconds" 10 false) -}}
{{- include "backfill.below" (list $times "leaseRenewDeadlineSeconds" 10 "leaseSeconds" 15 false) -}}
{{- include "backfill.below" (list $times "relistMinSeconds" 60 "relistMaxSeconds" 300 true) -}}
{{- range (lookup "apps/v1" "Deployment" .Release.Namespace "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- if and (eq (index $labels "app.kubernetes.io/name" | default "") "backfill-operator") (ne (index $labels "app.kubernetes.io/instance" | default "") $.Release.Name) -}}
{{- fail (printf "release %s is in namespace %s already: upgrade that one, or install this one in another namespace" (index $labels "app.kubernetes.io/instance") $.Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- /* Without a server, as in `helm template`, no namespace is found: so ask for one that every cluster has. */ -}}
{{- $checks := include "backfill.on" .Values.watch.checkNamespaces -}}
{{- if and $checks (not (.Values.tenant).createNamespaces) .Values.watch.namespaces -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- range .Values.watch.namespaces -}}
{{- if not (lookup "v1" "Namespace" "" .) -}}
{{- fail (printf "watch.namespaces holds %s, which is not there: create it, or set tenant.createNamespaces=true" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $checks -}}
{{- $kind := (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "backfills.backfill.dev").metadata | default dict -}}
{{- $says := $kind.annotations | default dict -}}
{{- $whose := index $says "meta.helm.sh/release-name" | default "" -}}
{{- $system := index $says "meta.helm.sh/release-namespace" | default "" -}}
{{- $ours := and (eq $whose .Release.Name) (eq $system .Release.Namespace) -}}
{{- if not (include "backfill.on" (.Values.crd).install) -}}
{{- if and $ours (ne (index $says "helm.sh/resource-policy" | default "") "keep") -}}
{{- fail "crd.install=false would delete the kind Backfill, and every Backfill with it: upgrade with crd.install=true and crd.keep=true first" -}}
{{- end -}}
{{- end -}}
{{- $rbac := "rbac.authorization.k8s.io/v1" -}}
{{- range include "backfill.others" (list $ (lookup $rbac "ClusterRoleBinding" "" "").items) | fromJsonArray -}}
{{- fail (printf "%s watches every namespace: uninstall it first or, if it is gone, delete ClusterRoleBinding %s" .whose .name) -}}
{{- end -}}
{{- range .Values.watch.clusterWide | default false | ternary (list "") .Values.watch.namespaces -}}
{{- range include "backfill.others" (list $ (lookup $rbac "RoleBinding" . "").items) | fromJsonArray -}}
{{- fail (printf "%s is watched by %s: take it out of that one's watch.namespaces first or, if it is gone, delete RoleBinding %s there" .namespace .whose .name) -}}
{{- end -}}
{{- end -}}
{{- /* helm's own error names annotations. What a release left behind may be taken over. */ -}}
{{- if and (include "backfill.on" (.Values.crd).install) $whose (not $ours) -}}
{{- if lookup "apps/v1" "Deployment" $system $whose -}}
{{- fail (printf "the kind Backfill belongs to release %s of namespace %s: set crd.install=false" $whose $system) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Ends the installation where one time is not below another, as the operator itself would end. Takes a list: the settings, a name and its default, the name above it and its default, whether they may be equal. */}}
{{- define "backfill.below" -}}
{{- $low := float64 (index (index . 0) (index . 1) | default (index . 2)) -}}
{{- $high := float64 (index (index . 0) (index . 3) | default (index . 4)) -}}
{{- if or (gt $low $high) (and (eq $low $high) (not (index . 5))) -}}
{{- fail (printf "operator.settings.%s (%v s) must be above operator.settings.%s (%v s): set both" (index . 3) $high (index . 1) $low) -}}
{{- end -}}
{{- end }}

{{/* The operator's variables; those of its settings are called like the settings. A server stores no empty value: without one a variable is set, and empty. */}}
{{- define "backfill.environment" -}}
- name: BACKFILL_OPERATOR_IDENTITY
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- $fixed := dict "defaultImage" (include "backfill.sparkImage" .) "serviceAccount" (include "backfill.account" .) "leaseName" .Release.Name "leaseNamespace" .Release.Namespace }}
{{- $_ := set $fixed "podUser" (.Values.podUser | default "none") }}
{{- if not .Values.watch.clusterWide }}
{{- $_ := set $fixed "namespaces" .Values.watch.namespaces }}
{{- end }}
{{- range $name, $value := merge $fixed (.Values.limits | default dict) ((.Values.operator).settings | default dict) }}
- name: BACKFILL_OPERATOR_{{ $name | snakecase | upper }}
{{- with include "backfill.text" $value }}
  value: {{ quote . }}
{{- end }}
{{- end }}
{{- end }}

{{/* CEL: does one of the patterns stand for a name? A pattern that ends in * is a beginning. Takes a list: the name, the patterns. */}}
{{- define "backfill.named" -}}
{{- $regexes := list -}}
{{- range index . 1 -}}
{{- $regexes = append $regexes (hasSuffix "*" . | ternary (printf "%s.*" (regexQuoteMeta (trimSuffix "*" .))) (regexQuoteMeta .)) -}}
{{- end -}}
{{ index . 0 }}.matches({{ printf "^(%s)$" (join "|" (append $regexes "[^\\s\\S]")) | toJson }})
{{- end }}

{{/* CEL: the same for images, where a name without a version stands for any version of it. */}}
{{- define "backfill.image" -}}
{{- $regexes := list -}}
{{- range index . 1 -}}
{{- $quoted := regexQuoteMeta (trimSuffix "*" .) -}}
{{- if hasSuffix "*" . -}}
{{- $regexes = append $regexes (printf "%s.*" $quoted) -}}
{{- else if or (contains ":" (base .)) (contains "@" .) -}}
{{- $regexes = append $regexes $quoted -}}
{{- else -}}
{{- $regexes = append $regexes (printf `%s(:\w[\w.-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,})?` $quoted) -}}
{{- end -}}
{{- end -}}
{{ index . 0 }}.matches({{ printf "^(%s)$" (join "|" $regexes) | toJson }}) && !{{ index . 0 }}.contains("..") && !{{ index . 0 }}.contains("//")
{{- end }}

{{/* CEL: a part that may be missing or null, as a list or a mapping. Takes a list: its holder, its name, what is empty. */}}
{{- define "backfill.part" -}}
optional.ofNonZeroValue({{ index . 0 }}.?{{ index . 1 }}.orValue(null)).orValue({{ index . 2 }})
{{- end }}

{{/* The annotations of what `helm test` makes. Takes its place in the order. With `hook-succeeded` a failed test would take the Backfill away, and the cause with it. */}}
{{- define "backfill.test" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation
{{- end }}

{{/* Rules for calls of drivers and executors: DNS, and what the administrator names. Takes the values of networkPolicy.egress. */}}
{{- define "backfill.egress" -}}
{{- with .dns }}
- to: {{- toYaml . | nindent 4 }}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
    - {protocol: UDP, port: 5353}
    - {protocol: TCP, port: 5353}
{{- end }}
{{- with .to }}
{{ toYaml . }}
{{- end }}
{{- end }}
