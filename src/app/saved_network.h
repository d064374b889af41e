// What a checkpoint says of the network that it is of.
#pragma once

#include "carillon/app/program_spec.h"
#include "src/app/picture_options.h"
#include "src/checkpoint/checkpoint.h"

namespace carillon {

/// By what its training multiplied the pixels; 1 where it does not say. Errors: data.
double trained_pixel_scale(const LoadedCheckpoint& loaded);

/// What its training made of pictures, where those were of any kind. Errors: data.
std::optional<PictureOptions> trained_pictures(const LoadedCheckpoint& loaded);

/// The network of one of the program specs' models, for images and classes of that program spec, or that it tells.
/// Errors: data (no model of theirs).
Network network_of(const LoadedCheckpoint& loaded, std::span<const ProgramSpec> program_specs);

}  // namespace carillon
