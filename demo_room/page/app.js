// The page: puts the pieces together and keeps what is shown true to what happens.

import * as api from "./api.js";
import { Call } from "./call.js";
import { Camera } from "./camera.js";
import { Captions } from "./captions.js";
import { has, setUiLanguage, t, translate, uiLanguage } from "./i18n.js";
import { ListenerLatency } from "./latency.js";
import { listMicrophones, MicrophoneError, openMicrophone } from "./microphone.js";
import { loadPreferences, savePreference } from "./preferences.js";
import { Sound } from "./sound.js";
import { Timeline, WINDOW_MS } from "./timeline.js";
import { TimelineView } from "./timeline-view.js";

const $ = (id) => document.getElementById(id);
const NO_MICROPHONE = "none";
const THEMES = ["auto", "light", "dark"];
// Telephones have no keys, and some of them say that they have a mouse.
const KEYBOARD = matchMedia("(hover: hover) and (pointer: fine) and (min-width: 521px)").matches;
const COUNTED_FROM = 0.8;
const PASSING = new Set(["refused", "bad_text", "unsupported", "command", "reply.failed"]);
const preferences = loadPreferences();

let info = null;
let waited = false;
let call = null;
let connected = false;
let agentState = "listening";
let shown = "loading";
let timeline = new Timeline();
let listener = new ListenerLatency();
let key = "";
let failure = null;
let fatal = null;
let sent = "";

const captions = new Captions($("captions"), $("captions-empty"), $("announcer"));
const view = new TimelineView($("timeline"));
const sound = new Sound((loudness) => {
  listener.push(loudness, sound.outputLatency);
  showLoudness(loudness);
  call?.tick(loudness.venus);
});
const camera = new Camera(
  {
    button: $("camera"),
    icon: $("camera-icon"),
    view: $("self-view"),
    video: $("self-video"),
    hide: $("hide-self-view"),
  },
  {
    show: (track) => {
      call?.show(track);
      showCamera();
    },
    trouble: (error) => {
      if (error || failure?.code?.startsWith("camera_")) trouble(error);
    },
  },
);

// -- showing -----------------------------------------------------------------------------------------------------------

function show(state) {
  shown = state;
  $("orb").dataset.state = state;
  $("state").textContent = t(`state_${state}`);
  const inCall = call !== null;
  $("start").textContent = t(inCall ? "stop" : "start");
  $("start").classList.toggle("hang-up", inCall);
  $("start").disabled = !inCall && info?.engine.state !== "ready";
  $("mute").hidden = !connected || $("microphone").value === NO_MICROPHONE;
  $("mute").textContent = t(call?.muted ? "unmute" : "mute");
  $("mute").setAttribute("aria-pressed", String(call?.muted ?? false));
  showCamera();
  $("interrupt").hidden = !connected;
  $("interrupt").disabled = !["speaking", "ducked", "held", "thinking"].includes(agentState);
  $("level").hidden = $("mute").hidden;
  for (const id of ["typed", "send"]) $(id).disabled = !connected || !info?.can_type;
  $("typed").placeholder = t("typePlaceholder");
  $("captions-empty").textContent = t(connected ? "emptyCall" : "emptyIdle");
  $("hint").textContent = state === "loading" ? loadingHint() : connected ? (KEYBOARD ? t("hint_keyboard") : "") : t("hint_idle");
}

// A camera that is on can be switched off while the line is broken, too.
function showCamera() {
  $("camera").hidden = !call?.sees || !(connected || camera.on);
  camera.label(t);
}

function showCallState() {
  if (!call) return;
  if (!connected) show(shown === "reconnecting" ? "reconnecting" : "connecting");
  else show(call.muted && agentState === "listening" ? "muted" : agentState);
}

function loadingHint() {
  const { stage, share } = info?.engine ?? {};
  const words = t(has(`stage_${stage}`) ? `stage_${stage}` : "stage_starting");
  return typeof share === "number" ? `${words} ${Math.round(share * 100)} %` : words;
}

let loudest = 0;
function showLoudness({ microphone, venus }) {
  loudest = Math.max(loudest * 0.9, microphone);
  pending.microphone = Math.min(1, Math.sqrt(loudest) * 1.8);
  pending.venus = Math.min(1, Math.max((pending.venus ?? 0) * 0.9, Math.sqrt(venus) * 1.5));
}
const pending = { microphone: 0, venus: 0 };

function trouble(error) {
  failure = error;
  const code = error?.code ?? "other";
  $("trouble").hidden = error === null;
  if (error === null) return;
  const known = has(`error_${code}`) ? `error_${code}` : "error_other";
  $("trouble-text").textContent = t(known, { message: error.message ?? code });
  $("without-microphone").hidden = !(error instanceof MicrophoneError && info?.can_type);
}

function seconds(milliseconds) {
  return milliseconds === null ? "–" : `${(milliseconds / 1000).toFixed(2)} s`;
}

let announced = null;
function paint(now) {
  requestAnimationFrame(paint);
  if (document.hidden) return;
  $("orb").style.setProperty("--mine", pending.microphone.toFixed(3));
  $("orb").style.setProperty("--hers", pending.venus.toFixed(3));
  $("level").firstElementChild.style.transform = `scaleX(${pending.microphone.toFixed(3)})`;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (still && now - (paint.drawn ?? 0) < 250) return;
  paint.drawn = now;
  view.draw(timeline, call ? performance.now() : (paint.frozen ?? performance.now()));
  if (timeline.lastLatency !== announced) {
    announced = timeline.lastLatency;
    labelTimeline();
  }
}

function showPrivacy() {
  const plain = info?.transport === "livekit" ? "privacyLivekit" : "privacy";
  $("privacy").textContent = t(info?.recording ? "privacyRecording" : info?.can_see ? `${plain}Sees` : plain);
}

function labelTimeline() {
  const latency = timeline.lastLatency;
  const values = { seconds: WINDOW_MS / 1000, latency: seconds(latency?.edge ?? null) };
  $("timeline").setAttribute("aria-label", latency ? t("timelineLabel", values) : t("timelineEmpty"));
}

// -- the call ----------------------------------------------------------------------------------------------------------

async function start(withMicrophone) {
  trouble(null);
  $("start").disabled = true;
  await sound.wake();
  let stream = null;
  if (withMicrophone) {
    try {
      stream = await openMicrophone($("microphone").value || undefined);
    } catch (error) {
      trouble(error);
      show(shown);
      return;
    }
    watchDevice(stream);
    await fillMicrophones(stream.getAudioTracks()[0]?.getSettings().deviceId);
  }
  fatal = null;
  captions.clear();
  timeline = new Timeline();
  listener = new ListenerLatency();
  $("latency-edge").textContent = $("latency-listener").textContent = "–";
  agentState = "listening";
  const begun = new Call({
    state: (name, code) => onCallState(begun, name, code),
    event: onEvent,
    remote: playRemote,
    outputLatency: () => sound.outputLatency,
  });
  call = begun;
  shown = "connecting";
  sound.listenToMicrophone(stream);
  const language = $("language").value;
  const choice = { language: language === "auto" ? null : language, voice: $("voice").value || null };
  try {
    await call.start(info?.transport, stream, choice, key);
  } catch (error) {
    for (const track of stream?.getTracks() ?? []) track.stop();
    over(begun, error);
    if (error.code === "key") askForKey();
  }
}

function onCallState(of, name, code) {
  if (of !== call) return;
  connected = name === "connected";
  if (name === "ended") {
    over(of, code === "ended" ? null : { code, message: "" });
    return;
  }
  if (name === "reconnecting") timeline.resync();
  shown = name;
  showCallState();
}

function over(of, error) {
  if (of !== call) return;
  paint.frozen = performance.now();
  call = null;
  connected = false;
  camera.off();
  $("voice-out").srcObject = null;
  sound.listenToMicrophone(null);
  sound.listenToVenus(null);
  pending.microphone = pending.venus = 0;
  trouble(fatal ?? error);
  fatal = null;
  show("idle");
  refreshInfo();
}

function playRemote(stream) {
  const out = $("voice-out");
  out.srcObject = stream;
  out.play().catch((error) => trouble({ code: "other", message: error.message }));
  sound.listenToVenus(stream);
}

function onEvent(event) {
  timeline.apply(event, performance.now());
  captions.apply(event);
  if (event.type === "session.configured" || (event.type === "user.text" && event.final)) {
    if (event.typed) sent = "";
    if (PASSING.has(failure?.code)) trouble(null);
  }
  if (event.type === "agent.state") {
    agentState = event.state;
    showCallState();
  } else if (event.type === "latency") {
    $("latency-edge").textContent = seconds(event.edge_ms);
    listener.expect(sound.now, (heard) => {
      $("latency-listener").textContent = seconds(heard);
    });
  } else if (event.type === "trouble") {
    const error = { code: event.code, message: event.message };
    if (event.fatal) fatal = error;
    trouble(error);
    // What was not taken is not lost.
    if (PASSING.has(event.code) && sent && $("typed").value === "") {
      $("typed").value = sent;
      countTyped();
    }
    sent = "";
  } else if (event.type === "session.started") {
    $("recording").hidden = !event.recording;
  }
}

function watchDevice(stream) {
  const [track] = stream.getAudioTracks();
  track.addEventListener("ended", () => trouble(new MicrophoneError("gone")));
  track.addEventListener("mute", () => trouble({ code: "muted_device" }));
  track.addEventListener("unmute", () => failure?.code === "muted_device" && trouble(null));
}

async function changeMicrophone() {
  savePreference("microphone", $("microphone").value);
  if (!call || $("microphone").value === NO_MICROPHONE) return;
  try {
    const stream = await openMicrophone($("microphone").value || undefined);
    watchDevice(stream);
    await call.useMicrophone(stream);
    sound.listenToMicrophone(stream);
    trouble(null);
  } catch (error) {
    trouble(error);
  }
}

function setMuted(muted) {
  call?.mute(muted);
  showCallState();
}

function typeText(event) {
  event.preventDefault();
  const text = $("typed").value.trim();
  if (!text || !call?.send({ type: "type", text })) return;
  sent = text;
  $("typed").value = "";
  countTyped();
}

function countTyped() {
  const { maxLength: limit, value } = $("typed");
  $("typed-count").hidden = value.length < limit * COUNTED_FROM;
  $("typed-count").textContent = `${value.length} / ${limit}`;
}

function configure() {
  savePreference("language", $("language").value);
  savePreference("voice", $("voice").value);
  call?.send({ type: "configure", language: $("language").value, voice: $("voice").value || "auto" });
}

// -- choices -----------------------------------------------------------------------------------------------------------

function option(value, text) {
  const element = document.createElement("option");
  element.value = value;
  element.textContent = text;
  return element;
}

async function fillMicrophones(inUse) {
  const list = $("microphone");
  const wanted = inUse ?? (list.value || preferences.microphone || "");
  const devices = await listMicrophones();
  const items = devices.map((device, index) => option(device.deviceId, device.label || `${t("microphone")} ${index + 1}`));
  if (!devices.some(({ deviceId }) => deviceId === "default")) items.unshift(option("", t("defaultMicrophone")));
  items.push(option(NO_MICROPHONE, t("noMicrophone")));
  list.replaceChildren(...items);
  list.value = items.some(({ value }) => value === wanted) ? wanted : items[0].value;
}

function fillVoices() {
  const list = $("voice");
  const wanted = list.value || preferences.voice || "";
  const language = $("language").value;
  const groups = Object.entries(info?.voices ?? {}).filter(([code]) => language === "auto" || code === language);
  const items = groups.map(([code, names]) => {
    const group = document.createElement("optgroup");
    group.label = code === "zh" ? "中文" : "English";
    group.append(...names.map((name) => option(name, name)));
    return group;
  });
  list.replaceChildren(option("", t("defaultVoice")), ...items);
  list.value = wanted;
  if (list.selectedIndex < 0) list.value = "";
}

function askForKey() {
  $("key-form").hidden = false;
  $("key").focus();
}

async function enterKey(event) {
  event.preventDefault();
  key = $("key").value;
  $("key-form").hidden = true;
  await start($("microphone").value !== NO_MICROPHONE);
}

// -- appearance --------------------------------------------------------------------------------------------------------

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme-icon").setAttribute("href", `/page/icons.svg#${theme}`);
  const name = t(`theme${theme[0].toUpperCase()}${theme.slice(1)}`);
  $("theme").title = name;
  $("theme").setAttribute("aria-label", name);
  view.refresh();
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  savePreference("theme", theme);
  setTheme(theme);
}

function setLanguage(language) {
  setUiLanguage(language);
  translate();
  $("ui-language").textContent = t("otherLanguage");
  $("ui-language").setAttribute("aria-label", t("otherLanguageLabel"));
  showPrivacy();
  setTheme(document.documentElement.dataset.theme);
  labelTimeline();
  fillVoices();
  fillMicrophones();
  if (call) showCallState();
  else show(shown);
  if (failure) trouble(failure);
}

// -- the server's state ------------------------------------------------------------------------------------------------

async function refreshInfo() {
  try {
    info = await api.info();
  } catch (error) {
    if (!call) {
      if (failure === null) trouble(error);
      show("failed");
    }
    setTimeout(refreshInfo, 2000);
    return;
  }
  if (failure?.code === "offline") trouble(null);
  $("version").textContent = `Realtime-Venus ${info.version} · ${info.engine.name}`;
  $("recording").hidden = !info.recording;
  showPrivacy();
  $("typed").maxLength = info.text_chars;
  countTyped();
  $("loading").hidden = info.engine.state !== "loading";
  if (typeof info.engine.share === "number") $("loading").value = info.engine.share;
  else $("loading").removeAttribute("value");
  if (call) return;
  if (info.engine.state === "loading") {
    waited = true;
    show("loading");
    setTimeout(refreshInfo, 700);
  } else if (info.engine.state === "failed") {
    show("failed");
    trouble({ code: "engine_failed", message: info.engine.error });
  } else if (waited && info.can_see) {
    // What a page may use, a camera for one, it is told only when it is loaded; this one was loaded too soon.
    location.reload();
  } else {
    show("idle");
    fillVoices();
    if (info.key_required && !key) askForKey();
  }
}

// -- wiring ------------------------------------------------------------------------------------------------------------

$("start").addEventListener("click", () => {
  if (call) call.hangUp();
  else start($("microphone").value !== NO_MICROPHONE);
});
$("without-microphone").addEventListener("click", () => {
  $("microphone").value = NO_MICROPHONE;
  start(false);
});
$("mute").addEventListener("click", () => setMuted(!call?.muted));
$("interrupt").addEventListener("click", () => call?.send({ type: "interrupt" }));
$("type-form").addEventListener("submit", typeText);
$("typed").addEventListener("input", countTyped);
$("key-form").addEventListener("submit", enterKey);
$("microphone").addEventListener("change", changeMicrophone);
$("voice").addEventListener("change", configure);
$("language").addEventListener("change", () => {
  fillVoices();
  configure();
});
$("theme").addEventListener("click", nextTheme);
$("ui-language").addEventListener("click", () => {
  const language = uiLanguage() === "en" ? "zh" : "en";
  savePreference("ui", language);
  setLanguage(language);
});
document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (!connected || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") call.send({ type: "interrupt" });
  else if (!typing && event.key.toLowerCase() === "m" && !$("mute").hidden) setMuted(!call.muted);
});
navigator.mediaDevices?.addEventListener?.("devicechange", () => fillMicrophones());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.refresh());
window.addEventListener("pagehide", () => call?.abandon());

document.documentElement.dataset.theme = THEMES.includes(preferences.theme) ? preferences.theme : "auto";
if (["auto", "en", "zh"].includes(preferences.language)) $("language").value = preferences.language;
setLanguage(preferences.ui ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"));
refreshInfo();
requestAnimationFrame(paint);
