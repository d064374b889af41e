// The kernels of embed_tokens and first_token on a GPU. Each thread processes a pack of n elements. These are elements
// of the result (y or dx) or, for the sums over the batch, of a sample of dy. n divides the number of channels.
#pragma once

#include <cstdint>

#include "kernels/shared/block_kernel.h"
#include "kernels/shared/pack.h"

namespace carillon {

/// T: float or Bf16.
template <typename T, int n>
struct EmbedTokensForward {
  const T* x = nullptr;  ///< [batch, size - channels]
  const float *class_token = nullptr, *positions = nullptr;
  T* y = nullptr;                       ///< [batch, size]
  std::int64_t size = 0, channels = 0;  ///< number of elements of a sample of y, and of a token

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    const std::int64_t i = pack * n, sample = i / size, at = i - sample * size;
    Pack<float, n> sums = at < channels ? load<n>(class_token + at) : load_floats<n>(x + i - (sample + 1) * channels);
    const Pack<float, n> position = load<n>(positions + at);
    for (int k = 0; k < n; ++k) sums.at[k] += position.at[k];
    store_floats(sums, y + i);
  }
};

/// Computes the gradients of the class token and the positions. The gradient of a pack (neighbouring elements) is the
/// sum of dy at this place over all samples.
template <typename T, int n>
struct EmbedTokensSums {
  static constexpr int samples_at_once = 16;  ///< number of values that are loaded before the first one is added

  const T* dy = nullptr;                               ///< [batch, size]
  float *class_token = nullptr, *positions = nullptr;  ///< the gradients; either of them may be null
  std::int64_t batch = 0, size = 0, channels = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    const std::int64_t at = pack * n;
    Pack<float, n> sums = {};
    for (std::int64_t first = 0; first < batch; first += samples_at_once) {
      Pack<T, n> samples[samples_at_once];
      CARILLON_UNROLL
      for (int k = 0; k < samples_at_once; ++k) {
        const std::int64_t sample = first + k < batch ? first + k : batch - 1;  // clamped: no branch separates the
                                                                                // loads
        samples[k] = load<n>(dy + sample * size + at);
      }
      CARILLON_UNROLL
      for (int k = 0; k < samples_at_once; ++k) {
        if (first + k >= batch) continue;
        for (int i = 0; i < n; ++i) sums.at[i] += to_float(samples[k].at[i]);
      }
    }
    if (positions != nullptr) store(sums, positions + at);
    if (class_token != nullptr && at < channels) store(sums, class_token + at);
  }
};

/// One thread for each pack of dx, [batch, size - channels].
template <typename T, int n>
struct EmbedTokensBackward {
  const T* dy = nullptr;  ///< [batch, size]
  T* dx = nullptr;
  std::int64_t size = 0, channels = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    const std::int64_t i = pack * n, sample = i / (size - channels);
    store(load<n>(dy + i + (sample + 1) * channels), dx + i);
  }
};

/// One thread for each pack of y, [batch, channels].
template <typename T, int n>
struct FirstTokenForward {
  const T* x = nullptr;  ///< [batch, size]
  T* y = nullptr;
  std::int64_t size = 0, channels = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    const std::int64_t i = pack * n, sample = i / channels;
    store(load<n>(x + sample * size + i - sample * channels), y + i);
  }
};

/// One thread for each pack of dx, [batch, size].
template <typename T, int n>
struct FirstTokenBackward {
  const T* dy = nullptr;  ///< [batch, channels]
  T* dx = nullptr;
  std::int64_t size = 0, channels = 0;

  CARILLON_HOST_DEVICE void operator()(std::int64_t pack) const {
    const std::int64_t i = pack * n, sample = i / size, at = i - sample * size;
    store(at < channels ? load<n>(dy + sample * channels + at) : Pack<T, n>{}, dx + i);
  }
};

}  // namespace carillon
