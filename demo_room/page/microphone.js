// The microphone: opening one, naming them all, and saying in a word what is wrong.

const WANTED = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };

export class MicrophoneError extends Error {
  constructor(code) {
    super(code);
    this.code = code;
  }
}

const CODES = {
  NotAllowedError: "denied",
  SecurityError: "denied",
  NotFoundError: "none",
  OverconstrainedError: "gone",
  NotReadableError: "busy",
  AbortError: "busy",
};

export async function openMicrophone(deviceId) {
  if (!window.isSecureContext) throw new MicrophoneError("insecure");
  if (!navigator.mediaDevices?.getUserMedia) throw new MicrophoneError("unsupported");
  const audio = deviceId ? { ...WANTED, deviceId: { exact: deviceId } } : WANTED;
  try {
    return await navigator.mediaDevices.getUserMedia({ audio, video: false });
  } catch (error) {
    throw new MicrophoneError(CODES[error.name] ?? "busy");
  }
}

export async function listMicrophones() {
  if (!navigator.mediaDevices?.enumerateDevices) return [];
  const devices = await navigator.mediaDevices.enumerateDevices();
  return devices.filter((device) => device.kind === "audioinput" && device.deviceId !== "");
}
