// What the page remembers between visits.  Storage may be forbidden; then nothing is remembered and nothing breaks.

const KEY = "venus.preferences";

export function loadPreferences() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return typeof stored === "object" && stored !== null ? stored : {};
  } catch {
    return {};
  }
}

export function savePreference(name, value) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...loadPreferences(), [name]: value }));
  } catch {
    // Private windows may refuse; the choice then lasts as long as the page.
  }
}
