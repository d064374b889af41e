#include "src/cli/launch/saved_network.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "carillon/core/error.h"
#include "src/core/text.h"

namespace carillon {

double trained_pixel_scale(const LoadedCheckpoint& loaded) {
  const nlohmann::json trained = nlohmann::json::parse(loaded.state.options_json, nullptr, false);
  nlohmann::json scale = 1.0;
  if (trained.is_object() && trained.contains("pixel_scale")) scale = trained["pixel_scale"];
  const bool is_known = scale.is_number() && scale.get<double>() > 0.0 && std::isfinite(scale.get<float>());
  if (!is_known) {
    fail(ExitCode::data, "{}: pixel_scale in its options is {}, expected a number above 0 (set --pixel-scale)",
         loaded.path.string(), scale.dump());
  }
  return scale.get<double>();
}

std::optional<PictureOptions> trained_pictures(const LoadedCheckpoint& loaded) {
  try {
    return described_pictures(loaded.state.options_json);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", loaded.path.string(), error.what());
  }
}

std::vector<std::string> trained_class_names(const LoadedCheckpoint& loaded, const ProgramSpec& program_spec) {
  const std::optional<PictureOptions> pictures = trained_pictures(loaded);
  return pictures ? pictures->class_names : program_spec.class_names;
}

bool has_moving_averages(const LoadedCheckpoint& loaded) {
  const nlohmann::json trained = nlohmann::json::parse(loaded.state.options_json, nullptr, false);
  return !trained.is_object() || trained.value("moving_average_decay", nlohmann::json()) != 0.0;
}

bool was_trained_in_bf16(const LoadedCheckpoint& loaded) {
  const nlohmann::json trained = nlohmann::json::parse(loaded.state.options_json, nullptr, false);
  return trained.is_object() && trained.value("precision", nlohmann::json()) == "bf16";
}

Network make_saved_network(const MakeNetwork& make, const NetworkSettings& settings,
                           const std::filesystem::path& path) {
  try {
    return make(settings);
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    fail(ExitCode::data, "{}: {}", path.string(), error.what());
  }
}

Network network_of(const LoadedCheckpoint& loaded, std::span<const ProgramSpec> program_specs) {
  const std::optional<PictureOptions> pictures = trained_pictures(loaded);
  for (const ProgramSpec& program_spec : program_specs) {
    if (program_spec.of_pictures != pictures.has_value()) continue;
    for (const NamedNetwork& named : program_spec.networks) {
      if (named.name != loaded.state.model) continue;
      if (pictures) {
        return make_saved_network(named.make,
                                  {.image = evaluation_shape(*pictures),
                                   .outputs = pictures->classes,
                                   .normalization = normalization_of(pictures->preprocessing)},
                                  loaded.path);
      }
      const RecordSchema& records = program_spec.defaults.data.record_form.schema;
      return make_saved_network(named.make,
                                {.image = records.image_shape,
                                 .outputs = task_of(program_spec, records).outputs,
                                 .pixel_scale = static_cast<float>(trained_pixel_scale(loaded))},
                                loaded.path);
    }
  }
  fail(ExitCode::data, "{} holds model '{}', which this program does not have", loaded.path.string(),
       printable(loaded.state.model));
}

}  // namespace carillon
