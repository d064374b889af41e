// The brightness, contrast and standardisation of cifar_distort as one affine map per channel, on CPU and GPU.
//
// m_c and V_c: mean and variance of channel c of the crop; b: brightness; f: contrast.
//   after contrast   v' = (v - m_c) f + m_c + b
//   mean             m = average over c of (m_c + b)
//   variance         V = average over c of (f^2 V_c + (m_c + b - m)^2)
//   y = (v' - m) / max(sqrt(V), 1 / sqrt(n)) = (v - k_c) factor + offset_c
// m_c and V_c are exact, from integer sums. k_c is the integer nearest to m_c, so v - k_c is exact, and small if the
// image is nearly constant and factor is large.
#pragma once

#include <cmath>
#include <cstdint>

#include "carillon/core/host_device.h"
#include "kernels/cifar_distort/cifar_distort_draw.h"

namespace carillon {

inline constexpr int max_image_channels = 4;

/// Sums over one channel of a crop.
struct ChannelSums {
  std::int64_t values = 0, squares = 0;
};

/// y = (v - centre[c]) * factor + offset[c].
struct ImageMap {
  float factor = 1.0f;
  std::int32_t centre[max_image_channels] = {};
  float offset[max_image_channels] = {};
};

/// A fused multiply-add, so that every processor rounds alike.
CARILLON_HOST_DEVICE inline float map_value(const ImageMap& map, int channel, std::uint8_t v) {
  return std::fma(static_cast<float>(v - map.centre[channel]), map.factor, map.offset[channel]);
}

/// The map of a crop with `channels` channels of `pixels` values each. `sums`: by channel.
CARILLON_HOST_DEVICE inline ImageMap image_map(const ChannelSums* sums, int channels, std::int64_t pixels,
                                               const CifarDistortDraw& draw) {
  const double count = static_cast<double>(pixels), contrast = draw.contrast;
  double channel_mean[max_image_channels], mean = 0.0;
  for (int c = 0; c < channels; ++c) {
    channel_mean[c] = static_cast<double>(sums[c].values) / count + draw.brightness;
    mean += channel_mean[c] / channels;
  }
  double variance = 0.0;
  for (int c = 0; c < channels; ++c) {
    const std::int64_t scaled = pixels * sums[c].squares - sums[c].values * sums[c].values;  // pixels^2 V_c
    const double apart = channel_mean[c] - mean;
    variance += (contrast * contrast * static_cast<double>(scaled) / (count * count) + apart * apart) / channels;
  }
  const double least = 1.0 / std::sqrt(count * channels), deviation = std::sqrt(variance);
  const double inverse = 1.0 / (deviation > least ? deviation : least);

  ImageMap map;
  map.factor = static_cast<float>(contrast * inverse);
  for (int c = 0; c < channels; ++c) {
    const std::int64_t centre = (2 * sums[c].values + pixels) / (2 * pixels);
    const double to_centre = static_cast<double>(centre * pixels - sums[c].values) / count;  // k_c - m_c
    map.centre[c] = static_cast<std::int32_t>(centre);
    map.offset[c] = static_cast<float>((to_centre * contrast + channel_mean[c] - mean) * inverse);
  }
  return map;
}

}  // namespace carillon
