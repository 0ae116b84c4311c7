/*
 * From the declarations of a policy to its descriptor.
 *
 *   rules, sorted by id ─┬─▶ rules
 *     on, of each ───────┼─▶ matches: for each route, the operations and the rules that apply to them
 *     reads, of each ────┼─▶ reads, each with the rules that need it
 *     samples, of each ──┴─▶ sampling rules
 *   settings, and those that all policies have in common ─▶ schema
 *
 * The result is the same, byte for byte, as that of the SDK for Rust.
 */
#include "internal.h"

#include <string.h>

static const char FILES[] = "opgate.dev";
static const opgate_operation OPERATIONS[] = {OPGATE_CREATE, OPGATE_UPDATE, OPGATE_DELETE, OPGATE_CONNECT};

typedef wit_list_string_t texts;
typedef opgate_policy_types_list_operation_t operations;

static texts owned(opgate_list list) {
  size_t len = 0;
  while (list != NULL && list[len] != NULL) {
    len++;
  }
  texts found = {opgate_array(len, sizeof(wit_string_t)), len};
  for (size_t i = 0; i < len; i++) {
    found.ptr[i] = opgate_wit_of(list[i]);
  }
  return found;
}

/* The position of the last hyphen of an id; its end if there is none. */
static size_t hyphen_of(opgate_text id) {
  for (size_t i = id.len; i > 0; i--) {
    if (id.ptr[i - 1] == '-') {
      return i - 1;
    }
  }
  return id.len;
}

static int compared(opgate_text left, opgate_text right) {
  size_t len = left.len < right.len ? left.len : right.len;
  int order = memcmp(left.ptr, right.ptr, len);
  return order != 0 ? order : (left.len > right.len) - (left.len < right.len);
}

bool opgate_is_before(const opgate_rule *left, const opgate_rule *right) {
  opgate_text l = opgate_text_of(left->id), r = opgate_text_of(right->id);
  size_t l_hyphen = hyphen_of(l), r_hyphen = hyphen_of(r);
  int order = compared((opgate_text){l.ptr, l_hyphen}, (opgate_text){r.ptr, r_hyphen});
  if (order == 0 && l.len - l_hyphen != r.len - r_hyphen) {
    order = l.len - l_hyphen < r.len - r_hyphen ? -1 : 1;
  }
  if (order == 0) {
    order = compared((opgate_text){l.ptr + l_hyphen, l.len - l_hyphen}, (opgate_text){r.ptr + r_hyphen, r.len - r_hyphen});
  }
  return order < 0;
}

opgate_rules opgate_sorted_rules(const opgate_policy *policy) {
  size_t len = 0;
  while (policy->rules[len] != NULL) {
    len++;
  }
  opgate_rules rules = {opgate_array(len, sizeof(void *)), len};
  for (size_t i = 0; i < len; i++) {
    size_t at = i;
    while (at > 0 && opgate_is_before(policy->rules[i], rules.ptr[at - 1])) {
      rules.ptr[at] = rules.ptr[at - 1];
      at--;
    }
    rules.ptr[at] = policy->rules[i];
  }
  return rules;
}

static bool applies_to(const opgate_rule *rule, const opgate_target *target, opgate_operation operation) {
  for (const opgate_on *on = rule->on; on != NULL && on->target != NULL; on++) {
    if (on->target == target && (on->operations & operation) != 0) {
      return true;
    }
  }
  return false;
}

static bool reads_it(const opgate_rule *rule, const opgate_read *read) {
  for (size_t i = 0; rule->reads != NULL && rule->reads[i] != NULL; i++) {
    if (rule->reads[i] == read) {
      return true;
    }
  }
  return false;
}

static opgate_policy_types_option_setting_t setting(const opgate_setting *from) {
  if (from == NULL) {
    return (opgate_policy_types_option_setting_t){0};
  }
  return (opgate_policy_types_option_setting_t){true, {opgate_wit_of(from->pointer), opgate_wit_of(from->default_value)}};
}

/* The operations in a set of bits. */
static operations operations_of(unsigned bits) {
  operations found = {opgate_array(4, 1), 0};
  for (uint8_t i = 0; i < 4; i++) {
    if ((bits & OPERATIONS[i]) != 0) {
      found.ptr[found.len++] = i;
    }
  }
  return found;
}

static opgate_policy_types_rule_t rule_of(const opgate_rule *rule) {
  unsigned bits = 0;
  size_t count = 0;
  for (const opgate_on *on = rule->on; on != NULL && on->target != NULL; on++) {
    bits |= on->operations;
    count++;
  }
  texts kinds = {opgate_array(count, sizeof(wit_string_t)), 0};
  for (size_t i = 0; i < count; i++) {
    opgate_text kind = opgate_text_of(rule->on[i].target->kind);
    bool is_known = false;
    for (size_t k = 0; k < kinds.len; k++) {
      is_known |= opgate_text_equal(opgate_of_wit(kinds.ptr[k]), kind);
    }
    if (!is_known) {
      kinds.ptr[kinds.len++] = opgate_to_wit(kind);
    }
  }
  uint8_t level = rule->level == OPGATE_DENY ? OPGATE_POLICY_TYPES_DEFAULT_LEVEL_DENY : OPGATE_POLICY_TYPES_DEFAULT_LEVEL_WARN;
  return (opgate_policy_types_rule_t){
      .id = opgate_wit_of(rule->id),
      .name = opgate_wit_of(rule->name),
      .title = opgate_wit_of(rule->title),
      .default_level = rule->enabled_by != NULL ? OPGATE_POLICY_TYPES_DEFAULT_LEVEL_OFF : level,
      .enabled_by = owned(rule->enabled_by != NULL ? rule->enabled_by : rule->denies_with),
      .kinds = kinds,
      .operations = operations_of(bits),
      .sources = owned(rule->sources),
  };
}

static opgate_policy_types_match_rule_t match_of(const opgate_target *target, unsigned bits, texts rules, uint8_t route) {
  size_t count = 0;
  while (target->conditions != NULL && target->conditions[count].name != NULL) {
    count++;
  }
  opgate_policy_types_list_match_condition_t conditions = {opgate_array(count, sizeof *conditions.ptr), count};
  for (size_t i = 0; i < count; i++) {
    conditions.ptr[i].name = opgate_wit_of(target->conditions[i].name);
    conditions.ptr[i].expression = opgate_wit_of(target->conditions[i].expression);
  }
  return (opgate_policy_types_match_rule_t){
      .groups = owned(target->groups),
      .versions = owned(target->versions),
      .resources = owned(target->resources),
      .operations = operations_of(bits),
      .namespace_ = setting(target->namespace_),
      .namespaces = {owned(target->namespaces.include), owned(target->namespaces.exclude)},
      .names = {owned(target->names.include), owned(target->names.exclude)},
      .rules = rules,
      .advisory = target->advisory,
      .route = route,
      .match_conditions = conditions,
      .namespace_selector = opgate_wit_of(target->namespace_selector),
      .enabled_by = owned(target->enabled_by),
  };
}

/* The rules that apply to an operation of a kind. */
static texts applying_ids(opgate_rules rules, const opgate_target *target, opgate_operation operation) {
  texts ids = {opgate_array(rules.len, sizeof(wit_string_t)), 0};
  for (size_t i = 0; i < rules.len; i++) {
    if (applies_to(rules.ptr[i], target, operation)) {
      ids.ptr[ids.len++] = opgate_wit_of(rules.ptr[i]->id);
    }
  }
  return ids;
}

static bool same_ids(texts left, texts right) {
  bool same = left.len == right.len;
  for (size_t i = 0; same && i < left.len; i++) {
    same = left.ptr[i].ptr == right.ptr[i].ptr;
  }
  return same;
}

/* The requests that each route gets. Operations to which the same rules apply are one entry. */
static opgate_policy_types_list_match_rule_t matches_of(const opgate_policy *policy, opgate_rules rules) {
  opgate_policy_types_list_match_rule_t matches = {NULL, 0};
  size_t room = 0;
  uint8_t number = 0;
  for (const opgate_route *route = policy->routes; route->on != NULL; route++, number++) {
    if (number == 64) {
      opgate_fail("more than 64 routes");
    }
    texts ids[4];
    for (size_t i = 0; i < 4; i++) {
      ids[i] = applying_ids(rules, route->on, OPERATIONS[i]);
    }
    for (size_t i = 0; i < 4; i++) {
      unsigned bits = 0;
      for (size_t k = 0; k < 4; k++) {
        if (same_ids(ids[i], ids[k])) {
          bits |= OPERATIONS[k];
        }
      }
      bool is_first = (bits & (OPERATIONS[i] - 1u)) == 0;
      if (ids[i].len > 0 && is_first) {
        matches.ptr = opgate_grow(matches.ptr, matches.len, &room, sizeof *matches.ptr);
        matches.ptr[matches.len++] = match_of(route->on, bits, ids[i], number);
      }
    }
  }
  return matches;
}

static opgate_policy_types_cluster_read_t read_of(const opgate_read *read, opgate_rules rules) {
  size_t count = 0;
  while (read->indexes != NULL && read->indexes[count].name != NULL) {
    count++;
  }
  opgate_policy_types_list_index_t indexes = {opgate_array(count, sizeof *indexes.ptr), count};
  for (size_t i = 0; i < count; i++) {
    const opgate_index *index = &read->indexes[i];
    indexes.ptr[i].name = opgate_wit_of(index->name);
    indexes.ptr[i].field = opgate_wit_of(index->field);
    indexes.ptr[i].separator = opgate_wit_of(index->separator);
  }
  texts ids = {opgate_array(rules.len, sizeof(wit_string_t)), 0};
  for (size_t i = 0; i < rules.len; i++) {
    if (reads_it(rules.ptr[i], read)) {
      ids.ptr[ids.len++] = opgate_wit_of(rules.ptr[i]->id);
    }
  }
  return (opgate_policy_types_cluster_read_t){
      .resource = {opgate_wit_of(read->group), opgate_wit_of(read->version), opgate_wit_of(read->resource)},
      .fields = owned(read->fields),
      .keys = owned(read->keys),
      .label_selector = opgate_wit_of(read->label_selector),
      .namespace_ = setting(read->namespace_),
      .indexes = indexes,
      .rules = ids,
      .enabled_by = owned(read->enabled_by),
  };
}

/* The reads of the rules, each once, in the order of the rules. */
static opgate_policy_types_list_cluster_read_t reads_of(opgate_rules rules) {
  opgate_policy_types_list_cluster_read_t reads = {NULL, 0};
  size_t room = 0;
  for (size_t i = 0; i < rules.len; i++) {
    const opgate_read *const *of_rule = rules.ptr[i]->reads;
    for (size_t k = 0; of_rule != NULL && of_rule[k] != NULL; k++) {
      bool is_known = false;
      for (size_t before = 0; before < i; before++) {
        is_known |= reads_it(rules.ptr[before], of_rule[k]);
      }
      for (size_t before = 0; before < k; before++) {
        is_known |= of_rule[before] == of_rule[k];
      }
      if (!is_known) {
        reads.ptr = opgate_grow(reads.ptr, reads.len, &room, sizeof *reads.ptr);
        reads.ptr[reads.len++] = read_of(of_rule[k], rules);
      }
    }
  }
  return reads;
}

#define LIST "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"default\":[]}"
#define CLOSED "\"type\":\"object\",\"additionalProperties\":false,\"properties\":"

/* Whether the policy evaluates requests, and not only files. */
static bool evaluates_requests(const opgate_policy *policy) {
  for (const opgate_route *route = policy->routes; route->on != NULL; route++) {
    opgate_list groups = route->on->groups;
    if (groups == NULL || groups[0] == NULL || groups[1] != NULL || strcmp(groups[0], FILES) != 0) {
      return true;
    }
  }
  return false;
}

/* The members of the JSON object that the policy declares. */
static opgate_text own_settings(const char *settings) {
  opgate_text own = opgate_text_of(settings == NULL ? "" : settings);
#define IS_SPACE(byte) ((byte) == ' ' || (byte) == '\n' || (byte) == '\t' || (byte) == '\r')
  while (own.len > 0 && (IS_SPACE(own.ptr[0]) || own.ptr[0] == '{')) {
    own.ptr++;
    own.len--;
  }
  bool is_open = true;
  while (own.len > 0 && (IS_SPACE(own.ptr[own.len - 1]) || (is_open && own.ptr[own.len - 1] == '}'))) {
    is_open = is_open && own.ptr[own.len - 1] != '}';
    own.len--;
  }
  return own;
}

/* JSON Schema of the settings: those of the policy, and the common ones that its rules need. */
static opgate_text schema_of(const opgate_policy *policy, opgate_rules rules) {
  opgate_text exceptions = OPGATE_TEXT("");
  const char *needs = NULL;
  bool needs_cluster = false;
  for (size_t i = 0; i < rules.len; i++) {
    const opgate_rule *rule = rules.ptr[i];
    if (rule->no_exemptions) {
      exceptions = opgate_format("%.*s%s%s", OPGATE_ARG(exceptions), exceptions.len == 0 ? " but " : " and ", rule->id);
    }
    needs_cluster |= rule->samples || (rule->reads != NULL && rule->reads[0] != NULL);
    if (rule->may_skip) {
      needs = "files that are not available";
    }
  }
  if (needs_cluster) {
    needs = "cluster objects that are not available";
  }
  opgate_text of_requests = OPGATE_TEXT("");
  if (evaluates_requests(policy)) {
    of_requests = opgate_format(
        "\"ratcheting\":{\"description\":\"Omit violations in fields that an UPDATE does not change.\",\"type\":\"boolean\",\"default\":true},"
        "\"exempt\":{\"description\":\"Identities to which no rule%.*s applies.\"," CLOSED "{\"users\":" LIST ",\"groups\":" LIST "}},",
        OPGATE_ARG(exceptions));
  }
  opgate_text skipped = OPGATE_TEXT("");
  if (needs != NULL) {
    skipped = opgate_format(
        ",\"skippedRules\":{\"description\":\"Whether to warn of a rule that is skipped because it needs %s.\","
        "\"enum\":[\"omit\",\"warn\"],\"default\":\"omit\"}",
        needs);
  }
  opgate_text own = own_settings(policy->settings);
  return opgate_format(
      "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"title\":\"Settings of the policy %s\"," CLOSED "{%.*s"
      "\"messages\":{" CLOSED "{\"prefixRuleId\":{\"description\":\"Put the rule's id before its message.\",\"type\":\"boolean\","
      "\"default\":false}%.*s}},"
      "\"rules\":{\"description\":\"Levels that the configuration gives to rules; written by the host.\",\"type\":\"object\","
      "\"readOnly\":true}%s%.*s}}",
      policy->name, OPGATE_ARG(of_requests), OPGATE_ARG(skipped), own.len > 0 ? "," : "", OPGATE_ARG(own));
}

void opgate_describe(const opgate_policy *policy, wit_descriptor_t *descriptor) {
  opgate_rules rules = opgate_sorted_rules(policy);
  opgate_policy_types_list_rule_t described = {opgate_array(rules.len, sizeof *described.ptr), rules.len};
  texts samples = {opgate_array(rules.len, sizeof(wit_string_t)), 0};
  for (size_t i = 0; i < rules.len; i++) {
    described.ptr[i] = rule_of(rules.ptr[i]);
    if (rules.ptr[i]->samples) {
      samples.ptr[samples.len++] = opgate_wit_of(rules.ptr[i]->id);
    }
  }
  *descriptor = (wit_descriptor_t){
      .name = opgate_wit_of(policy->name),
      .version = opgate_wit_of(policy->version),
      .title = opgate_wit_of(policy->title),
      .rules = described,
      .matches = matches_of(policy, rules),
      .reads = reads_of(rules),
      .sampling_rules = samples,
      .settings_schema = opgate_to_wit(schema_of(policy, rules)),
  };
}
