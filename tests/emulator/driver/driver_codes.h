// The numbers of CUDA's driver API that the emulated one shares with its tests: results and
// attributes, by the values of the public interface.
#pragma once

namespace emulator {

inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotInitialized = 3;
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidImage = 200;
inline constexpr int kInvalidContext = 201;
inline constexpr int kNoBinaryForGpu = 209;
inline constexpr int kUnsupportedPtxVersion = 222;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotFound = 500;
inline constexpr int kNotReady = 600;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kLaunchOutOfResources = 701;
inline constexpr int kIllegalInstruction = 715;
inline constexpr int kContextIsDestroyed = 709;
inline constexpr int kMisalignedAddress = 716;
inline constexpr int kLaunchFailed = 719;
inline constexpr int kCaptureUnsupported = 900;
inline constexpr int kCaptureInvalidated = 901;
inline constexpr int kCaptureUnmatched = 903;
inline constexpr int kCaptureIsolation = 905;
inline constexpr int kCaptureImplicit = 906;
inline constexpr int kCapturedEvent = 907;
inline constexpr int kGraphUpdateFailed = 910;

}  // namespace emulator
