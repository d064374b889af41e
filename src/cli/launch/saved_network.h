// The network of a checkpoint, as the options in it describe it.
#pragma once

#include "carillon/cli/program_spec.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/options/picture_options.h"

namespace carillon {

/// The --pixel-scale of its training; 1 if it does not say. Errors: data.
double trained_pixel_scale(const LoadedCheckpoint& loaded);

/// The picture options of its training; nothing if image_train did not train it. Errors: data.
std::optional<PictureOptions> trained_pictures(const LoadedCheckpoint& loaded);

/// The class names of its training, by label; empty if they are unknown. Errors: data.
std::vector<std::string> trained_class_names(const LoadedCheckpoint& loaded, const ProgramSpec& program_spec);
/// Whether its training kept moving averages. If not (--moving-average-decay 0), the arrays of this name equal the
/// variables up to rounding.
bool has_moving_averages(const LoadedCheckpoint& loaded);

/// Whether its training computed in bf16.
bool was_trained_in_bf16(const LoadedCheckpoint& loaded);

/// Makes the network of the checkpoint `path`. Errors: data (the network does not suit the checkpoint's image size).
Network make_saved_network(const MakeNetwork& make, const NetworkSettings& settings, const std::filesystem::path& path);

/// The network of the checkpoint's model, which is one of the program specs'. Its image shape and classes are those of
/// the program spec, or of the picture options in the checkpoint. Errors: data (none of them has the model; as
/// make_saved_network).
Network network_of(const LoadedCheckpoint& loaded, std::span<const ProgramSpec> program_specs);

}  // namespace carillon
