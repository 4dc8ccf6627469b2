// Opening a microphone or a camera, and saying in a word what is wrong.

const CODES = {
  NotAllowedError: "denied",
  SecurityError: "denied",
  NotFoundError: "none",
  OverconstrainedError: "gone",
  NotReadableError: "busy",
  AbortError: "busy",
};

export class DeviceError extends Error {
  constructor(code) {
    super(code);
    this.code = code;
  }
}

// The stream that was asked for; rejects with what makeError(code) gives.
export async function openDevice(constraints, makeError) {
  if (!window.isSecureContext) throw makeError("insecure");
  if (!navigator.mediaDevices?.getUserMedia) throw makeError("unsupported");
  try {
    return await navigator.mediaDevices.getUserMedia(constraints);
  } catch (error) {
    throw makeError(CODES[error.name] ?? "busy");
  }
}
