/*
 * The report of one review: the violations, and the rules that could not be evaluated.
 *
 *   add ─▶ level (configuration, settings, rule) ─▶ exempt? ─▶ at most 256, shared by the rules ─▶ verdict
 *   skip ──────────────────────────────────────────────────▶ skipped, warnings by `messages` ──────┘
 *
 * A verdict has at most 256 violations. If there are more, it has some of every rule, and the last violation of a rule counts the omitted
 * ones.
 */
#include "internal.h"

#include <string.h>

/* Maximum bytes of a text that the host accepts. */
#define MAX_MESSAGE_BYTES 4096
#define MAX_FIELD_BYTES 1024

/* The level of a rule that is off, or does not apply to the user who sent the request. */
#define NO_LEVEL -1

typedef struct {
  size_t order; /* among all violations */
  opgate_text field;
  opgate_text message;
  const opgate_fix *fix; /* NULL for none */
} violation;

/* The violations of one rule at one level. */
typedef struct {
  const opgate_rule *rule;
  int given; /* the level of the caller, or NO_LEVEL */
  int level;
  violation *first;
  size_t len, room;
  size_t count; /* of all violations */
} found;

/* A rule that was not evaluated. */
typedef struct {
  const opgate_rule *rule;
  opgate_text field;
  opgate_text reason;
  bool is_part;
} skipped_rule;

/* Words of an audit annotation, in byte order. */
typedef struct {
  const char *key;
  opgate_text *words;
  size_t len, room;
} annotation;

struct opgate_report {
  opgate_review *review;
  found *found;
  size_t found_len, found_room;
  skipped_rule *skipped;
  size_t skipped_len, skipped_room;
  annotation *annotations;
  size_t annotations_len, annotations_room;
  opgate_text reason;
  size_t count;
  /* The rules with a configured level, and the names of all settings: read once. */
  opgate_texts configured, settings;
  bool has_settings;
};

opgate_report *opgate_report_new(opgate_review *review) {
  opgate_report *report = opgate_allocate(sizeof *report);
  report->review = review;
  return report;
}

static bool is_among(opgate_texts texts, opgate_text text) {
  for (size_t i = 0; i < texts.len; i++) {
    if (opgate_text_equal(texts.ptr[i], text)) {
      return true;
    }
  }
  return false;
}

static void read_settings(opgate_report *report) {
  if (!report->has_settings) {
    report->has_settings = true;
    report->settings = opgate_keys_at(report->review->settings, "");
    if (is_among(report->settings, OPGATE_TEXT("rules"))) {
      report->configured = opgate_keys_at(report->review->settings, "/rules");
    }
  }
}

/* The level that the configuration sets for a rule; NULL if it sets none. */
static opgate_text configured(opgate_report *report, const opgate_rule *rule) {
  read_settings(report);
  if (!is_among(report->configured, opgate_text_of(rule->id))) {
    return (opgate_text){NULL, 0};
  }
  return opgate_text_at(report->review->settings, opgate_format("/rules/%s", rule->id).ptr);
}

/* Whether the settings can have a value at a pointer. Most are not set, and each look-up is a call of the host. */
static bool has_setting(opgate_report *report, const char *pointer) {
  read_settings(report);
  opgate_text name = opgate_text_of(pointer[0] == '/' ? pointer + 1 : pointer);
  const char *end = memchr(name.ptr, '/', name.len);
  name.len = end == NULL ? name.len : (size_t)(end - name.ptr);
  return pointer[0] == 0 || opgate_contains(name, '~') || is_among(report->settings, name);
}

static bool is_text(opgate_text text, const char *wanted) {
  return text.ptr != NULL && opgate_text_equal(text, opgate_text_of(wanted));
}

/* Whether one of the settings is present and not false. */
static bool is_on_by_settings(opgate_report *report, const opgate_rule *rule) {
  opgate_document settings = report->review->settings;
  if (rule->enabled_by == NULL) {
    return true;
  }
  for (opgate_list at = rule->enabled_by; *at != NULL; at++) {
    bool value = true;
    if (has_setting(report, *at) && opgate_has(settings, *at) && (!opgate_boolean_at(settings, *at, &value) || value)) {
      return true;
    }
  }
  return false;
}

/* Whether one of the settings makes a warning deny. */
static bool denies_by_settings(opgate_report *report, const opgate_rule *rule) {
  opgate_document settings = report->review->settings;
  for (opgate_list at = rule->denies_with; at != NULL && *at != NULL; at++) {
    bool value = false;
    if (!has_setting(report, *at)) {
      continue;
    }
    if ((opgate_boolean_at(settings, *at, &value) && value) || is_text(opgate_text_at(settings, *at), "deny")) {
      return true;
    }
  }
  return false;
}

static int level_of(opgate_report *report, const opgate_rule *rule, int given) {
  opgate_text level = configured(report, rule);
  if (level.ptr != NULL) {
    if (is_text(level, "off")) {
      return NO_LEVEL;
    }
    return is_text(level, "deny") ? OPGATE_DENY : OPGATE_WARN;
  }
  if (!is_on_by_settings(report, rule)) {
    return NO_LEVEL;
  }
  int wanted = given == NO_LEVEL ? (int)rule->level : given;
  return wanted == OPGATE_WARN && denies_by_settings(report, rule) ? OPGATE_DENY : wanted;
}

bool opgate_is_on(opgate_report *report, const opgate_rule *rule) {
  opgate_text level = configured(report, rule);
  return level.ptr != NULL ? !is_text(level, "off") : is_on_by_settings(report, rule);
}

bool opgate_denies(opgate_report *report, const opgate_rule *rule) {
  return level_of(report, rule, NO_LEVEL) == OPGATE_DENY;
}

static found *push(opgate_report *report, const opgate_rule *rule, int given, int level) {
  report->found = opgate_grow(report->found, report->found_len, &report->found_room, sizeof *report->found);
  found *added = &report->found[report->found_len++];
  *added = (found){.rule = rule, .given = given, .level = level};
  return added;
}

static found *of(opgate_report *report, const opgate_rule *rule, int given) {
  for (size_t i = 0; i < report->found_len; i++) {
    if (report->found[i].rule == rule && report->found[i].given == given) {
      return &report->found[i];
    }
  }
  bool applies = rule->no_exemptions || !opgate_is_exempt(report->review);
  return push(report, rule, given, applies ? level_of(report, rule, given) : NO_LEVEL);
}

static void add(opgate_report *report, const opgate_rule *rule, int given, violation added) {
  found *all = of(report, rule, given);
  if (all->level == NO_LEVEL) {
    return;
  }
  all->count++;
  if (all->len < OPGATE_MAX_VIOLATIONS) {
    all->first = opgate_grow(all->first, all->len, &all->room, sizeof *all->first);
    added.order = ++report->count;
    all->first[all->len++] = added;
  }
}

void opgate_add(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text message) {
  add(report, rule, NO_LEVEL, (violation){.field = field, .message = message});
}

void opgate_add_with_fix(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text message, const opgate_fix *fix) {
  add(report, rule, NO_LEVEL, (violation){.field = field, .message = message, .fix = fix});
}

void opgate_add_as(opgate_report *report, opgate_level level, const opgate_rule *rule, opgate_text field, opgate_text message) {
  add(report, rule, (int)level, (violation){.field = field, .message = message});
}

void opgate_add_count(opgate_report *report, const opgate_rule *rule, size_t count) {
  if (count > 0) {
    of(report, rule, NO_LEVEL)->count += count;
  }
}

bool opgate_is_full(const opgate_report *report, const opgate_rule *rule) {
  size_t len = 0;
  for (size_t i = 0; i < report->found_len; i++) {
    len += report->found[i].rule == rule ? report->found[i].len : 0;
  }
  return len >= OPGATE_MAX_VIOLATIONS;
}

size_t opgate_denials(const opgate_report *report, const opgate_rule *rule) {
  size_t count = 0;
  for (size_t i = 0; i < report->found_len; i++) {
    const found *all = &report->found[i];
    count += all->rule == rule && all->level == OPGATE_DENY ? all->count : 0;
  }
  return count;
}

static void skip(opgate_report *report, skipped_rule added) {
  for (size_t i = 0; i < report->skipped_len; i++) {
    if (report->skipped[i].rule == added.rule) {
      return;
    }
  }
  report->skipped = opgate_grow(report->skipped, report->skipped_len, &report->skipped_room, sizeof *report->skipped);
  report->skipped[report->skipped_len++] = added;
}

void opgate_skip(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text reason) {
  skip(report, (skipped_rule){rule, field, reason, false});
}

void opgate_skip_part(opgate_report *report, const opgate_rule *rule, opgate_text field, opgate_text reason) {
  skip(report, (skipped_rule){rule, field, reason, true});
}

void opgate_set_reason(opgate_report *report, opgate_text reason) {
  report->reason = reason;
}

void opgate_annotate(opgate_report *report, const char *key, opgate_text word) {
  annotation *of_key = NULL;
  for (size_t i = 0; i < report->annotations_len; i++) {
    of_key = strcmp(report->annotations[i].key, key) == 0 ? &report->annotations[i] : of_key;
  }
  if (of_key == NULL) {
    report->annotations = opgate_grow(report->annotations, report->annotations_len, &report->annotations_room, sizeof *report->annotations);
    of_key = &report->annotations[report->annotations_len++];
    *of_key = (annotation){.key = key};
  }
  if (is_among((opgate_texts){of_key->words, of_key->len}, word)) {
    return;
  }
  of_key->words = opgate_grow(of_key->words, of_key->len, &of_key->room, sizeof word);
  size_t at = of_key->len++;
  for (; at > 0; at--) {
    opgate_text before = of_key->words[at - 1];
    int order = memcmp(before.ptr, word.ptr, before.len < word.len ? before.len : word.len);
    if (order < 0 || (order == 0 && before.len < word.len)) {
      break;
    }
    of_key->words[at] = before;
  }
  of_key->words[at] = word;
}

bool opgate_or_skip(opgate_report *report, const opgate_rule *const *rules, const char *needed, opgate_answer answer) {
  if (answer.status == OPGATE_NO_CLUSTER || answer.status == OPGATE_UNAVAILABLE) {
    opgate_text reason = opgate_format("the cluster's %s are not available", needed);
    if (answer.status == OPGATE_UNAVAILABLE) {
      reason = opgate_format("%.*s: %.*s", OPGATE_ARG(reason), OPGATE_ARG(answer.reason));
    }
    for (; *rules != NULL; rules++) {
      opgate_skip(report, *rules, OPGATE_TEXT(""), reason);
    }
  }
  return answer.status == OPGATE_ANSWERED;
}

/* At most `limit` bytes, cut between characters. */
static wit_string_t cut(opgate_text text, size_t limit) {
  if (text.len > limit) {
    while (limit > 0 && ((unsigned char)text.ptr[limit] & 0xC0) == 0x80) {
      limit--;
    }
    text.len = limit;
  }
  return opgate_to_wit(text);
}

/* The rules that could not be evaluated, in the order of their IDs. A rule that is off is not skipped. */
static void sort_skipped(opgate_report *report) {
  size_t len = 0;
  for (size_t i = 0; i < report->skipped_len; i++) {
    skipped_rule one = report->skipped[i];
    if (!opgate_is_on(report, one.rule)) {
      continue;
    }
    size_t at = len++;
    for (; at > 0 && opgate_is_before(one.rule, report->skipped[at - 1].rule); at--) {
      report->skipped[at] = report->skipped[at - 1];
    }
    report->skipped[at] = one;
  }
  report->skipped_len = len;
}

static void warn_of_skipped(opgate_report *report) {
  if (report->skipped_len == 0 || !is_text(opgate_text_at(report->review->settings, "/messages/skippedRules"), "warn")) {
    return;
  }
  for (size_t i = 0; i < report->skipped_len; i++) {
    skipped_rule one = report->skipped[i];
    /* Without a cluster, a rule that the configuration sets to deny would deny every request. */
    if (is_text(configured(report, one.rule), "deny")) {
      continue;
    }
    const char *how = one.is_part ? "evaluated in part" : "not evaluated";
    found *warning = push(report, one.rule, OPGATE_WARN, OPGATE_WARN);
    warning->first = opgate_array(1, sizeof(violation));
    warning->first[0] = (violation){SIZE_MAX, one.field, opgate_format("%s was %s: %.*s", one.rule->id, how, OPGATE_ARG(one.reason)), NULL};
    warning->len = warning->count = 1;
  }
}

/* The number of violations of each rule that fit in one verdict. */
static size_t share_of(const opgate_report *report) {
  for (size_t share = OPGATE_MAX_VIOLATIONS; share > 1; share--) {
    size_t all = 0;
    for (size_t i = 0; i < report->found_len; i++) {
      all += report->found[i].len < share ? report->found[i].len : share;
    }
    if (all <= OPGATE_MAX_VIOLATIONS) {
      return share;
    }
  }
  return 1;
}

/* The violations of each rule that fit in one verdict, in the order of their addition. */
static opgate_policy_types_list_violation_t share_out(const opgate_report *report) {
  size_t share = share_of(report), len = 0, room = 0;
  opgate_policy_types_violation_t *violations = NULL;
  size_t *orders = opgate_array(report->found_len * share + 1, sizeof *orders);
  for (size_t i = 0; i < report->found_len; i++) {
    found *all = &report->found[i];
    size_t shown = all->len < share ? all->len : share;
    for (size_t k = 0; k < shown; k++) {
      violation one = all->first[k];
      if (k + 1 == shown && all->count > shown) {
        /* The count comes first, because a long message is cut at its end. */
        one.message =
            opgate_format("%zu more violations of this rule are omitted; %.*s", all->count - shown, OPGATE_ARG(one.message));
      }
      violations = opgate_grow(violations, len, &room, sizeof *violations);
      size_t at = len++;
      for (; at > 0 && orders[at - 1] > one.order; at--) {
        violations[at] = violations[at - 1];
        orders[at] = orders[at - 1];
      }
      orders[at] = one.order;
      violations[at] = (opgate_policy_types_violation_t){
          .rule = opgate_wit_of(all->rule->id),
          .level = (uint8_t)all->level,
          .field = cut(one.field, MAX_FIELD_BYTES),
          .message = opgate_to_wit(one.message),
      };
      if (one.fix != NULL) {
        violations[at].fix = (opgate_policy_types_option_fix_t){true, one.fix->wit};
      }
    }
  }
  return (opgate_policy_types_list_violation_t){violations, len};
}

static opgate_policy_types_list_audit_annotation_t annotations_of(const opgate_report *report) {
  opgate_policy_types_list_audit_annotation_t list = {opgate_array(report->annotations_len, sizeof *list.ptr), report->annotations_len};
  for (size_t i = 0; i < report->annotations_len; i++) {
    opgate_text value = OPGATE_TEXT("");
    for (size_t k = 0; k < report->annotations[i].len; k++) {
      value = opgate_format("%.*s%s%.*s", OPGATE_ARG(value), k == 0 ? "" : " ", OPGATE_ARG(report->annotations[i].words[k]));
    }
    list.ptr[i].key = opgate_wit_of(report->annotations[i].key);
    list.ptr[i].value = opgate_to_wit(value);
  }
  return list;
}

void opgate_finish(opgate_report *report, wit_verdict_t *verdict) {
  sort_skipped(report);
  warn_of_skipped(report);
  opgate_policy_types_list_violation_t violations = share_out(report);
  bool is_prefixed = false;
  if (violations.len > 0 && has_setting(report, "/messages")) {
    opgate_boolean_at(report->review->settings, "/messages/prefixRuleId", &is_prefixed);
  }
  for (size_t i = 0; i < violations.len; i++) {
    opgate_text message = opgate_of_wit(violations.ptr[i].message);
    if (is_prefixed) {
      message = opgate_format("%.*s: %.*s", OPGATE_ARG(opgate_of_wit(violations.ptr[i].rule)), OPGATE_ARG(message));
    }
    violations.ptr[i].message = cut(message, MAX_MESSAGE_BYTES);
  }
  opgate_policy_types_list_skipped_rule_t skipped = {opgate_array(report->skipped_len, sizeof *skipped.ptr), report->skipped_len};
  for (size_t i = 0; i < skipped.len; i++) {
    skipped_rule one = report->skipped[i];
    skipped.ptr[i].rule = opgate_wit_of(one.rule->id);
    skipped.ptr[i].reason = opgate_to_wit(one.is_part ? opgate_format("in part: %.*s", OPGATE_ARG(one.reason)) : one.reason);
  }
  *verdict = (wit_verdict_t){
      .violations = {violations.ptr, violations.len},
      .reason = {report->reason.ptr != NULL, opgate_to_wit(report->reason)},
      .audit_annotations = annotations_of(report),
      .skipped = skipped,
  };
}
