// Keys and values of labels as Kubernetes checks them. The texts are those of apimachinery v0.36; the Rust SDK does
// the same in common/compat/src/names.rs.

const QUALIFIED = /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;
const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const RULE = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const NAMES = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUES = "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const encoder = new TextEncoder();
const isLonger = (text, bytes) => text.length > bytes || (text.length * 3 > bytes && encoder.encode(text).length > bytes);

/** The error for the key of a label; undefined if it is valid. */
export function labelKeyError(key) {
  const parts = key.split('/');
  if (parts.length > 2) return `a valid label key ${RULE} ${NAMES} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`;
  const name = parts[parts.length - 1];
  const errors = [];
  if (parts.length === 2) {
    const [prefix] = parts;
    if (prefix === '') {
      errors.push('prefix part must be non-empty');
    } else {
      if (isLonger(prefix, 253)) errors.push('prefix part must be no more than 253 bytes');
      if (!prefix.split('.').every((label) => LABEL.test(label))) errors.push(`prefix part ${SUBDOMAIN}`);
    }
  }
  if (name === '') errors.push('name part must be non-empty');
  else if (isLonger(name, 63)) errors.push('name part must be no more than 63 bytes');
  if (!QUALIFIED.test(name)) errors.push(`name part ${RULE} ${NAMES}`);
  return errors.length > 0 ? errors.join('; ') : undefined;
}

/** The error for the value of a label; undefined if it is valid. */
export function labelValueError(value) {
  const errors = [];
  if (isLonger(value, 63)) errors.push('must be no more than 63 bytes');
  if (value !== '' && !QUALIFIED.test(value)) errors.push(`a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character ${VALUES}`);
  return errors.length > 0 ? errors.join('; ') : undefined;
}
