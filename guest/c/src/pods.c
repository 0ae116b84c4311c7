/*
 * Specs of pods, wherever an object has them, and the containers in these. The Rust SDK does the same in guest/sdk/src/pods.rs.
 *
 *   ClusterServiceVersion ─▶ opgate_pods_in_csv ───▶ one opgate_pod_spec for each deployment ─┐
 *   Pod, workload ─────────▶ opgate_pods_in_object ▶ one opgate_pod_spec ─────────────────────┴─▶ opgate_containers_of
 */
#include "internal.h"

#define DEPLOYMENTS "/spec/install/spec/deployments"
#define TEMPLATE "/spec/template/spec"

static const char *const LISTS[] = {"containers", "initContainers", "ephemeralContainers"};

static const struct {
  const char *kind, *pointer, *field;
} SPECS[] = {
    {"Pod", "/spec", "spec"},
    {"Deployment", TEMPLATE, "spec.template.spec"},
    {"DaemonSet", TEMPLATE, "spec.template.spec"},
    {"StatefulSet", TEMPLATE, "spec.template.spec"},
    {"ReplicaSet", TEMPLATE, "spec.template.spec"},
    {"ReplicationController", TEMPLATE, "spec.template.spec"},
    {"Job", TEMPLATE, "spec.template.spec"},
    {"CronJob", "/spec/jobTemplate/spec/template/spec", "spec.jobTemplate.spec.template.spec"},
    {"PodTemplate", "/template/spec", "template.spec"},
};

static opgate_text or_empty(opgate_text text) {
  return text.ptr == NULL ? OPGATE_TEXT("") : text;
}

opgate_pod_specs opgate_pods_in_object(opgate_document object, opgate_text kind) {
  for (size_t i = 0; i < sizeof SPECS / sizeof *SPECS; i++) {
    if (opgate_text_equal(kind, opgate_text_of(SPECS[i].kind))) {
      opgate_pod_spec *spec = opgate_allocate(sizeof *spec);
      opgate_text name = or_empty(opgate_text_at(object, "/metadata/name"));
      *spec = (opgate_pod_spec){name, opgate_text_of(SPECS[i].pointer), opgate_text_of(SPECS[i].field)};
      return (opgate_pod_specs){spec, 1};
    }
  }
  return (opgate_pod_specs){NULL, 0};
}

opgate_pod_specs opgate_pods_in_csv(opgate_document csv) {
  opgate_texts names = opgate_column_at(csv, DEPLOYMENTS, "/name");
  opgate_pod_spec *specs = opgate_array(names.len, sizeof *specs);
  for (size_t i = 0; i < names.len; i++) {
    specs[i] = (opgate_pod_spec){
        or_empty(names.ptr[i]),
        opgate_format(DEPLOYMENTS "/%zu" TEMPLATE, i),
        opgate_format("spec.install.spec.deployments[%zu].spec.template.spec", i),
    };
  }
  return (opgate_pod_specs){specs, names.len};
}

opgate_containers opgate_containers_of(opgate_document document, const opgate_pod_spec *spec, const char *column) {
  opgate_texts values[3];
  size_t len = 0;
  for (size_t list = 0; list < 3; list++) {
    values[list] = opgate_column_at(document, opgate_format("%.*s/%s", OPGATE_ARG(spec->pointer), LISTS[list]).ptr, column);
    len += values[list].len;
  }
  opgate_containers found = {opgate_array(len, sizeof(opgate_container)), 0};
  for (size_t list = 0; list < 3; list++) {
    for (size_t i = 0; i < values[list].len; i++) {
      found.ptr[found.len++] = (opgate_container){spec, LISTS[list], i, values[list].ptr[i]};
    }
  }
  return found;
}

opgate_text opgate_container_pointer(const opgate_container *container) {
  return opgate_format("%.*s/%s/%zu", OPGATE_ARG(container->spec->pointer), container->list, container->index);
}

opgate_text opgate_container_field(const opgate_container *container) {
  return opgate_format("%.*s.%s[%zu]", OPGATE_ARG(container->spec->field), container->list, container->index);
}
