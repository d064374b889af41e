// The kernels of tokens on a GPU. Each thread processes one element of y, or of a sample of y.
#pragma once

#include <cstdint>

#include "carillon/core/host_device.h"
#include "src/core/bf16.h"

namespace carillon {

/// T: float or Bf16.
template <typename T>
struct EmbedTokensForward {
  const T* x = nullptr;  ///< [batch, size - channels]
  const float *class_token = nullptr, *positions = nullptr;
  T* y = nullptr;                       ///< [batch, size]
  std::int64_t size = 0, channels = 0;  ///< elements of a sample of y, of a token

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / size, at = i - sample * size;
    const float token = at < channels ? class_token[at] : to_float(x[i - (sample + 1) * channels]);
    y[i] = stored_as<T>(token + positions[at]);
  }
};

/// Per element of a sample: its sum over the samples.
template <typename T>
struct EmbedTokensSums {
  const T* dy = nullptr;                               ///< [batch, size]
  float *class_token = nullptr, *positions = nullptr;  ///< gradients; either may be null
  std::int64_t batch = 0, size = 0, channels = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t at) const {
    float sum = 0.0f;
    for (std::int64_t b = 0; b < batch; ++b) sum += to_float(dy[b * size + at]);
    if (positions != nullptr) positions[at] = sum;
    if (class_token != nullptr && at < channels) class_token[at] = sum;
  }
};

/// Per element of dx, [batch, size - channels].
template <typename T>
struct EmbedTokensBackward {
  const T* dy = nullptr;  ///< [batch, size]
  T* dx = nullptr;
  std::int64_t size = 0, channels = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / (size - channels);
    dx[i] = dy[i + (sample + 1) * channels];
  }
};

/// Per element of y, [batch, channels].
template <typename T>
struct FirstTokenForward {
  const T* x = nullptr;  ///< [batch, size]
  T* y = nullptr;
  std::int64_t size = 0, channels = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / channels;
    y[i] = x[sample * size + i - sample * channels];
  }
};

/// Per element of dx, [batch, size].
template <typename T>
struct FirstTokenBackward {
  const T* dy = nullptr;  ///< [batch, channels]
  T* dx = nullptr;
  std::int64_t size = 0, channels = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / size, at = i - sample * size;
    dx[i] = at < channels ? dy[sample * channels + at] : stored_as<T>(0.0f);
  }
};

}  // namespace carillon
