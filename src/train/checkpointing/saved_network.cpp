#include "src/train/checkpointing/saved_network.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "carillon/core/error.h"
#include "kernels/image_input/image_input.h"
#include "kernels/shared/op_types.h"
#include "src/core/text.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {
namespace {

/// The decoders that a checkpoint can name.
struct NamedDecoder {
  std::string_view name;
  std::unique_ptr<RecordDecoder> (*make)(RecordSchema schema, RecordUse use);
};
constexpr std::array decoders{NamedDecoder{"grey", grey_records}, NamedDecoder{"planar", planar_records}};
constexpr std::string_view own_decoder = "own";

std::string_view decoder_name(const MakeDecoder& make) {
  for (const NamedDecoder& decoder : decoders) {
    const auto* const function = make.target<decltype(decoder.make)>();
    if (function != nullptr && *function == decoder.make) return decoder.name;
  }
  return own_decoder;
}

TargetKind kind_of(const TargetSpec& target) {
  if (target.type == DType::f32) return TargetKind::numbers;
  return target.type == DType::u8 ? TargetKind::labels : TargetKind::class_index;
}

nlohmann::json options_of(const LoadedCheckpoint& loaded) {
  return nlohmann::json::parse(loaded.state.options_json, nullptr, false);
}

/// Returns the target of records that are not pictures. Errors: data (the message does not contain the name of the
/// file).
TrainedTarget described_target(const nlohmann::json& options) {
  try {
    TrainedTarget target{.outputs = options.at("class count").get<std::int64_t>()};
    const std::optional<TargetKind> kind = target_of_task(options.at("target").get<std::string>());
    if (options.contains("class names")) target.names = options["class names"].get<std::vector<std::string>>();
    const bool has_all_names = target.names.empty() || static_cast<std::int64_t>(target.names.size()) == target.outputs;
    if (kind && has_all_names && target.outputs >= 1 && target.outputs <= static_cast<std::int64_t>(max_classes)) {
      target.kind = *kind;
      return target;
    }
  } catch (const nlohmann::json::exception&) {
    // the error is reported below
  }
  fail(ExitCode::data, "its options do not describe its records");
}

/// Returns the number of outputs of the network. Builds the network for this, and thereby checks its description.
std::int64_t output_count(const Network& network) {
  try {
    const BuiltNetwork built = build_network(network, {.purpose = Purpose::evaluation});
    return built.graph.shape(built.output)[1];
  } catch (const Error& error) {
    fail(error.code(), "for images of {} x {}: {}", network.image.height, network.image.width, error.what());
  }
}

/// Calls `read`. If it throws, adds the name of the file to the error.
template <typename Read>
auto naming_file(const LoadedCheckpoint& loaded, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    fail(ExitCode::data, "{}: {}", loaded.path.string(), error.what());
  }
}

}  // namespace

std::string trained_record_form(const LoadedCheckpoint& loaded) {
  const nlohmann::json options = options_of(loaded);
  const auto found = options.is_object() ? options.find("record form") : options.end();
  return found != options.end() && found->is_string() ? found->get<std::string>() : std::string(own_decoder);
}

bool has_named_decoder(const RecordForm& form) { return decoder_name(form.make_decoder) != own_decoder; }

void describe_records(const RecordForm& form, const Task& task, bool is_own_task,
                      const std::vector<std::string>& class_names, RunDescription& description) {
  const RecordSchema& schema = form.schema;
  const std::string_view form_name = is_own_task ? own_decoder : decoder_name(form.make_decoder);
  description.add("record form", std::string(form_name), Scope::result);
  description.add("image feature", schema.keys.image, Scope::result);
  description.add("target feature", schema.keys.label, Scope::result);
  description.add("target", std::string(task_name(kind_of(task.target))), Scope::result);
  description.add("class count", task.outputs, Scope::result);
  description.add("first class label", schema.first_label, Scope::result);
  if (!class_names.empty()) description.add("class names", class_names, Scope::result);
}

RecordForm described_records(const std::string& options_json) {
  const nlohmann::json options = nlohmann::json::parse(options_json, nullptr, false);
  const TrainedTarget target = described_target(options);
  try {
    const std::string name = options.at("record form");
    const auto found = std::ranges::find(decoders, std::string_view(name), &NamedDecoder::name);
    if (found == decoders.end()) {
      fail(ExitCode::data, "only the program that trained it can read its records (record form '{}')", printable(name));
    }
    return {.make_decoder = found->make,
            .schema = {.keys = {.image = options.at("image feature"), .label = options.at("target feature")},
                       .image_shape = {},
                       .class_count = target.outputs,
                       .first_label = options.at("first class label"),
                       .target = target.kind}};
  } catch (const nlohmann::json::exception&) {
    fail(ExitCode::data, "its options do not describe its records");
  }
}

std::vector<const OpType*> known_op_types(const std::vector<const OpType*>& own) {
  std::vector<const OpType*> types(op_types().begin(), op_types().end());
  types.insert(types.end(), own.begin(), own.end());
  return types;
}

Network network_of(const LoadedCheckpoint& loaded, const std::vector<const OpType*>& own_types) {
  const std::int64_t outputs = trained_target(loaded).outputs;
  return naming_file(loaded, [&] {
    Network network{read_description(loaded.state.network, known_op_types(own_types))};
    if (const auto pictures = described_pictures(loaded.state.options_json))
      network.image = evaluation_shape(*pictures);
    const std::int64_t built_outputs = output_count(network);
    if (built_outputs != outputs) {
      fail(ExitCode::data, "its network has {} outputs, its options state {}", built_outputs, outputs);
    }
    return network;
  });
}

void set_pixel_scale(Network& network, float scale) {
  for (OpDescription& op : network.ops) {
    const bool scales =
        op.type == &image_input_op && params_of<ImageInputParams>(op.attributes).values == PixelValues::scaled;
    if (scales) op.attributes.set("scale", scale);
  }
}

std::optional<PictureOptions> trained_pictures(const LoadedCheckpoint& loaded) {
  return naming_file(loaded, [&] { return described_pictures(loaded.state.options_json); });
}

PictureDecoding trained_decoding(const LoadedCheckpoint& loaded, const ImageShape& image) {
  if (const std::optional<PictureOptions> pictures = trained_pictures(loaded)) return evaluation_decoding(*pictures);
  return {.shorter = std::max(image.height, image.width)};
}

TrainedTarget trained_target(const LoadedCheckpoint& loaded) {
  if (const std::optional<PictureOptions> pictures = trained_pictures(loaded)) {
    return {pictures->target(), pictures->classes, pictures->class_names, pictures->scales};
  }
  return naming_file(loaded, [&] { return described_target(options_of(loaded)); });
}

bool has_moving_averages(const LoadedCheckpoint& loaded) {
  const nlohmann::json trained = options_of(loaded);
  return !trained.is_object() || trained.value("moving_average_decay", nlohmann::json()) != 0.0;
}

bool was_trained_in_bf16(const LoadedCheckpoint& loaded) {
  const nlohmann::json trained = options_of(loaded);
  return trained.is_object() && trained.value("precision", nlohmann::json()) == "bf16";
}

}  // namespace carillon
