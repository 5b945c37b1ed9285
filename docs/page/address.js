// What a reader has set stands in the address, #slopes=2&cut=1&seed=3, so that a finding can be passed on.
import { $ } from "./tools.js";

/** The settings in an address as pairs of a name and a text, and what else stands in it. */
export function readAddress(hash) {
  const part = hash.slice(1);
  if (part.includes("=")) return { pairs: [...new URLSearchParams(part)], problems: [] };
  const isSection = part === "" || $(part) !== null;
  return { pairs: [], problems: isSection ? [] : [part] };
}

/** The part of an address behind the page's own, for the settings that differ from the defaults. */
export function addressOf(settings, defaults) {
  const changed = Object.entries(settings).filter(([name, value]) => value !== defaults[name]);
  return changed.length ? `#${new URLSearchParams(changed)}` : "";
}

/** Set a control, and return whether it took the value: it has a range of its own. */
export function setControl(id, value) {
  $(id).value = value;
  return $(id).value === `${value}`;
}
