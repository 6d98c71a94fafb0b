{{/* The labels that select the operator's pods. */}}
{{- define "backfill.selector" -}}
app.kubernetes.io/name: backfill-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The labels of every object of this chart. */}}
{{- define "backfill.labels" -}}
{{ include "backfill.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* These labels and an object's further ones, which take precedence over commonLabels. Takes a list: the root context, the labels. */}}
{{- define "backfill.labelsWith" -}}
{{- $own := include "backfill.labels" (dict "Release" (index . 0).Release "Chart" (index . 0).Chart "Values" dict) -}}
{{- merge dict (fromYaml $own) (index . 1 | default dict) ((index . 0).Values.commonLabels | default dict) | toYaml -}}
{{- end }}

{{/* The operator's account, as a subject of a binding. */}}
{{- define "backfill.subjects" -}}
- kind: ServiceAccount
  name: {{ .Release.Name | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/* The name of cluster-scoped objects, which is different for releases of the same name in two namespaces. */}}
{{- define "backfill.clusterName" -}}
{{ .Release.Name }}-{{ .Release.Namespace }}
{{- end }}

{{/* The bindings of another installation's operator, as JSON: namespace, name, owner. Takes a list: the root context, the bindings. */}}
{{- define "backfill.others" -}}
{{- $top := index . 0 -}}
{{- $found := list -}}
{{- range index . 1 -}}
{{- $release := index (.metadata.labels | default dict) "app.kubernetes.io/instance" | default "" -}}
{{- $system := index (first (.subjects | default (list dict))) "namespace" | default "" -}}
{{- $ours := eq (index (.metadata.labels | default dict) "app.kubernetes.io/name" | default "") "backfill-operator" -}}
{{- /* The drivers' account is bound in its own namespace; an operator watches only other namespaces. */ -}}
{{- /* This one lets an operator list namespaces, and watch nothing in them. */ -}}
{{- $lists := eq (index (.metadata.labels | default dict) "app.kubernetes.io/component" | default "") "namespaces" -}}
{{- if and $ours (not $lists) (ne $system (.metadata.namespace | default "")) (ne (printf "%s/%s" $system $release) (printf "%s/%s" $top.Release.Namespace $top.Release.Name)) -}}
{{- $found = append $found (dict "namespace" .metadata.namespace "name" .metadata.name "whose" (printf "release %s of namespace %s" $release $system)) -}}
{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end }}

{{/* A label selector as text, as the operator takes it. */}}
{{- define "backfill.selectorText" -}}
{{- $terms := list -}}
{{- range $name, $value := .matchLabels -}}
{{- $terms = append $terms (printf "%s=%s" $name $value) -}}
{{- end -}}
{{- range .matchExpressions -}}
{{- if eq .operator "Exists" -}}
{{- $terms = append $terms .key -}}
{{- else if eq .operator "DoesNotExist" -}}
{{- $terms = append $terms (printf "!%s" .key) -}}
{{- else -}}
{{- $terms = append $terms (printf "%s %s (%s)" .key (lower .operator) (join "," .values)) -}}
{{- end -}}
{{- end -}}
{{- join "," $terms -}}
{{- end }}

{{/* Returns "on" if labels match a selector. Takes a list: the labels, the selector. */}}
{{- define "backfill.selects" -}}
{{- $labels := index . 0 | default dict -}}
{{- $on := "on" -}}
{{- range $name, $value := (index . 1).matchLabels -}}
{{- if ne (index $labels $name | default "") $value -}}{{- $on = "" -}}{{- end -}}
{{- end -}}
{{- range (index . 1).matchExpressions -}}
{{- $there := hasKey $labels .key -}}
{{- $in := and $there (has (index $labels .key | default "") (.values | default list)) -}}
{{- if not (dict "Exists" $there "DoesNotExist" (not $there) "In" $in "NotIn" (not $in) | dig .operator false) -}}{{- $on = "" -}}{{- end -}}
{{- end -}}
{{- $on -}}
{{- end }}

{{/* Returns "on" unless the value is false, for values that are true by default. Values of an earlier release (`helm upgrade --reuse-values`) lack new values. */}}
{{- define "backfill.on" -}}
{{- ne (toString .) "false" | ternary "on" "" -}}
{{- end }}

{{/* Values with a default that also applies if the values of an earlier release lack them. */}}
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

{{/* A value as an environment variable: lists separated by commas, integers without an exponent. */}}
{{- define "backfill.text" -}}
{{- if kindIs "slice" . -}}
{{ join "," . }}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{ int64 . }}
{{- else -}}
{{ . }}
{{- end -}}
{{- end }}

{{/* Checks that a schema cannot express. Each one fails the installation with a message. */}}
{{- define "backfill.check" -}}
{{- $selector := (.Values.watch).namespaceSelector | default dict -}}
{{- if not (or (.Values.watch).clusterWide (.Values.watch).namespaces $selector) -}}
{{- fail "watch.namespaces is empty: name the namespaces that have Backfills, set watch.namespaceSelector, or set watch.clusterWide=true" -}}
{{- end -}}
{{- if and (.Values.watch).clusterWide $selector -}}
{{- fail "watch.namespaceSelector has no effect with watch.clusterWide=true, which watches every namespace: set only one of them" -}}
{{- end -}}
{{- if $selector -}}
{{- range (lookup "v1" "Namespace" "" "").items -}}
{{- if include "backfill.selects" (list .metadata.labels $selector) -}}
{{- if eq .metadata.name $.Release.Namespace -}}
{{- fail (printf "watch.namespaceSelector matches %s, the operator's own namespace: users who may create pods there can act as the operator; remove the label from it, or install the operator in another namespace" .metadata.name) -}}
{{- end -}}
{{- range include "backfill.others" (list $ (lookup "rbac.authorization.k8s.io/v1" "RoleBinding" .metadata.name "").items) | fromJsonArray -}}
{{- fail (printf "watch.namespaceSelector of release %s of namespace %s matches %s, which is watched by %s: remove the label from it, or uninstall its tenant objects of that release" $.Release.Name $.Release.Namespace .namespace .whose) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if has .Release.Namespace (.Values.watch.namespaces | default list) -}}
{{- fail (printf "watch.namespaces contains %s, the operator's own namespace: users who may create pods there can act as the operator; install it in another namespace" .Release.Namespace) -}}
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
{{- /* Without a server, as in `helm template`, lookups return nothing. So check first for a namespace that every cluster has. */ -}}
{{- $checks := include "backfill.on" .Values.watch.checkNamespaces -}}
{{- $monitoring := .Values.monitoring | default dict -}}
{{- range list "serviceMonitor" "prometheusRule" -}}
{{- if and (index $monitoring . | default dict).enabled (not ($.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- fail (printf "monitoring.%s.enabled needs the Prometheus Operator, whose kinds (monitoring.coreos.com/v1) are not installed: install it, or set monitoring.%s.enabled=false" . .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $checks (not (.Values.tenant).createNamespaces) .Values.watch.namespaces -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- range .Values.watch.namespaces -}}
{{- if not (lookup "v1" "Namespace" "" .) -}}
{{- fail (printf "watch.namespaces contains %s, which does not exist: create it, or set tenant.createNamespaces=true" .) -}}
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
{{- fail (printf "%s is watched by %s: remove it from that release's watch.namespaces first or, if that release is gone, delete RoleBinding %s there" .namespace .whose .name) -}}
{{- end -}}
{{- end -}}
{{- /* helm's own error only names annotations. The CRD of an uninstalled release may be adopted. */ -}}
{{- if and (include "backfill.on" (.Values.crd).install) $whose (not $ours) -}}
{{- if lookup "apps/v1" "Deployment" $system $whose -}}
{{- fail (printf "the kind Backfill belongs to release %s of namespace %s: set crd.install=false" $whose $system) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Fails the installation if one time is not below another, because the operator would refuse to start. Takes a list: the settings, the name of the lower time and its default, the name of the higher time and its default, whether they may be equal. */}}
{{- define "backfill.below" -}}
{{- $low := float64 (index (index . 0) (index . 1) | default (index . 2)) -}}
{{- $high := float64 (index (index . 0) (index . 3) | default (index . 4)) -}}
{{- if or (gt $low $high) (and (eq $low $high) (not (index . 5))) -}}
{{- fail (printf "operator.settings.%s (%v s) must be above operator.settings.%s (%v s): set both" (index . 3) $high (index . 1) $low) -}}
{{- end -}}
{{- end }}

{{/* The operator's environment variables, named like its settings. A kubelet would replace `$(NAME)`, and makes `$(` of `$$(`. An API server does not store an empty value: without `value`, a variable is set to an empty string. */}}
{{- define "backfill.environment" -}}
- name: BACKFILL_OPERATOR_IDENTITY
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- $fixed := dict "defaultImage" (include "backfill.sparkImage" .) "serviceAccount" (include "backfill.account" .) "leaseName" .Release.Name "leaseNamespace" .Release.Namespace }}
{{- $_ := set $fixed "podUser" (.Values.podUser | default "none") }}
{{- with .Values.commonLabels }}
{{- $_ := set $fixed "labels" (toJson . | replace "$(" "$$(") }}
{{- end }}
{{- range $name := list "driver" "executor" }}
{{- $template := include "backfill.podTemplate" (list ($.Values.jobs | default dict) $name) }}
{{- if ne $template "{}" }}
{{- $_ := set $fixed (printf "%sTemplate" $name) ($template | replace "$(" "$$(") }}
{{- end }}
{{- end }}
{{- if not .Values.watch.clusterWide }}
{{- $_ := set $fixed "namespaces" (.Values.watch.namespaces | default list) }}
{{- end }}
{{- with .Values.watch.namespaceSelector }}
{{- $_ := set $fixed "namespaceSelector" (include "backfill.selectorText" .) }}
{{- end }}
{{- range $name, $value := merge $fixed (.Values.limits | default dict) ((.Values.operator).settings | default dict) }}
- name: BACKFILL_OPERATOR_{{ $name | snakecase | upper }}
{{- with include "backfill.text" $value }}
  value: {{ quote . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The pod template of drivers or executors, as JSON. Takes a list: the values `jobs`, the name of the container. */}}
{{- define "backfill.podTemplate" -}}
{{- $jobs := index . 0 -}}
{{- $executors := eq (index . 1) "executor" | ternary ($jobs.executors | default dict) dict -}}
{{- $spec := dict -}}
{{- $spec := dict "nodeSelector" (merge dict ($executors.nodeSelector | default dict) ($jobs.nodeSelector | default dict)) -}}
{{- $_ := set $spec "tolerations" (concat ($jobs.tolerations | default list) ($executors.tolerations | default list)) -}}
{{- $_ := set $spec "volumes" $jobs.extraVolumes -}}
{{- range $name := list "affinity" "topologySpreadConstraints" "priorityClassName" -}}
{{- $_ := set $spec $name (index $executors $name | default (index $jobs $name)) -}}
{{- end -}}
{{- range $name := list "schedulerName" "runtimeClassName" "dnsPolicy" "dnsConfig" -}}
{{- $_ := set $spec $name (index $jobs $name) -}}
{{- end -}}
{{- $secrets := list -}}
{{- range $jobs.imagePullSecrets -}}
{{- $secrets = append $secrets (dict "name" .) -}}
{{- end -}}
{{- $_ := set $spec "imagePullSecrets" $secrets -}}
{{- $container := include "backfill.filled" (dict "env" $jobs.extraEnv "envFrom" $jobs.extraEnvFrom "volumeMounts" $jobs.extraVolumeMounts) | fromJson -}}
{{- if $container -}}
{{- $_ := set $spec "containers" (list (set $container "name" (index . 1))) -}}
{{- end -}}
{{- $spec = include "backfill.filled" $spec | fromJson -}}
{{- if kindIs "bool" $jobs.hostUsers -}}
{{- $_ := set $spec "hostUsers" $jobs.hostUsers -}}
{{- end -}}
{{- $metadata := include "backfill.filled" (dict "labels" $jobs.podLabels "annotations" $jobs.podAnnotations) | fromJson -}}
{{- include "backfill.filled" (dict "metadata" $metadata "spec" $spec) -}}
{{- end }}

{{/* A mapping without its empty values, as JSON. */}}
{{- define "backfill.filled" -}}
{{- $made := dict -}}
{{- range $name, $value := . -}}
{{- if $value -}}
{{- $_ := set $made $name $value -}}
{{- end -}}
{{- end -}}
{{- $made | toJson -}}
{{- end }}

{{/* CEL: true if one of the patterns matches a name. A pattern that ends in * is a prefix. Takes a list: the name, the patterns. */}}
{{- define "backfill.named" -}}
{{- $regexes := list -}}
{{- range index . 1 -}}
{{- $regexes = append $regexes (hasSuffix "*" . | ternary (printf "%s.*" (regexQuoteMeta (trimSuffix "*" .))) (regexQuoteMeta .)) -}}
{{- end -}}
{{ index . 0 }}.matches({{ printf "^(%s)$" (join "|" (append $regexes "[^\\s\\S]")) | toJson }})
{{- end }}

{{/* CEL: the same for images; a pattern without a version matches any version of the image. */}}
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

{{/* CEL: a part that may be missing or null, as a list or a mapping. Takes a list: its parent, its name, the empty value. */}}
{{- define "backfill.part" -}}
optional.ofNonZeroValue({{ index . 0 }}.?{{ index . 1 }}.orValue(null)).orValue({{ index . 2 }})
{{- end }}

{{/* The annotations of the objects of `helm test`. Takes their weight in the order. With `hook-succeeded`, a failed test would delete the Backfill and the cause of the failure, and `--logs` would find no pod. No manifest can name an owner, whose UID is unknown when it is rendered. */}}
{{- define "backfill.test" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation
{{- end }}

{{/* Egress rules of drivers and executors: DNS, and the administrator's rules. Takes the values of networkPolicy.egress. */}}
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
