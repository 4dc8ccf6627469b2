// The microphone: opening one, and naming them all.

import { DeviceError, openDevice } from "./devices.js";

const WANTED = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };

export class MicrophoneError extends DeviceError {}

export function openMicrophone(deviceId) {
  const audio = deviceId ? { ...WANTED, deviceId: { exact: deviceId } } : WANTED;
  return openDevice({ audio, video: false }, (code) => new MicrophoneError(code));
}

export async function listMicrophones() {
  if (!navigator.mediaDevices?.enumerateDevices) return [];
  const devices = await navigator.mediaDevices.enumerateDevices();
  return devices.filter((device) => device.kind === "audioinput" && device.deviceId !== "");
}
