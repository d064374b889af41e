// What a checkpoint says of the network that it is of.
#pragma once

#include "carillon/app/preset.h"
#include "carillon/checkpoint/checkpoint.h"
#include "src/app/picture_options.h"

namespace carillon {

/// By what its training multiplied the pixels; 1 where it does not say. Errors: data.
double trained_pixel_scale(const LoadedCheckpoint& loaded);

/// What its training made of pictures, where those were of any kind. Errors: data.
std::optional<PictureOptions> trained_pictures(const LoadedCheckpoint& loaded);

/// The network of one of the presets' models, for images and classes of that preset, or that it tells. Errors: data (no
/// model of theirs).
Network network_of(const LoadedCheckpoint& loaded, std::span<const Preset> presets);

}  // namespace carillon
