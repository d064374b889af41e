// checkpoint_tool: inspects, compares, averages and exports checkpoints, and exchanges arrays between checkpoints and
// Python.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/checkpoint/array_files.h"
#include "src/checkpoint/named_arrays.h"
#include "src/cli/commands/commands.h"
#include "src/cli/options/option_set.h"
#include "src/core/manual.h"
#include "src/core/text.h"
#include "src/onnx/onnx.h"
#include "src/report/console.h"
#include "src/train/checkpointing/saved_network.h"
#include "src/train/checkpointing/torch_weights.h"

namespace carillon {
namespace {

constexpr const char* usage = R"(inspect FILE...                      prints step, options, and a table of the arrays
verify FILE...                       reads whole files; non-finite values count as damage
diff [--arrays] FIRST SECOND         prints the differences; exits with 1 if there are any. --arrays: compares arrays
                                     only, and ignores step, seed and options such as train_dir
average --output OUT FILE FILE...    averages variables, moving averages and buffers, for evaluations or --init-from.
                                     Drops the optimizer's state. Networks with batch norm lose some accuracy, because
                                     the mean of the running variances is not the variance of the mean network
export-npz FILE OUT.npz              writes all arrays for Python: numpy.load(OUT)["variables/layer1/weights"]
export --onnx OUT FILE               writes the trained network, with the moving averages if there are any, as an ONNX model
export --safetensors OUT FILE        the same values for PyTorch, with torchvision's or timm's names: load_state_dict(load_file(OUT))
import-npz --output OUT FILE IN.npz  writes a copy of FILE with the arrays of IN.npz

FILE is a checkpoint, or a train directory: its newest checkpoint that loads.)";

constexpr int differs = 1;

struct Arguments {
  std::vector<std::string> files;
  std::string output, onnx, safetensors;
  bool raw_weights = false, arrays_only = false;
};

LoadedCheckpoint load(const std::string& place) { return find_checkpoint(place, print_warning); }

/// Describes how a program must convert a picture to the input of an ONNX model.
nlohmann::json preprocessing_of(const LoadedCheckpoint& loaded, const ImageShape& image) {
  const PictureDecoding decoding = trained_decoding(loaded, image);
  const bool is_antialiased = decoding.resampling == Resampling::antialiased;
  const Colour background = decoding.background, padding = decoding.padding;
  nlohmann::json json{
      {"layout", "NCHW"},
      {"type", "float32"},
      {"range", {0, 255}},
      {"height", image.height},
      {"width", image.width},
      {"channels", image.channels},
      {"colours", image.channels == 3 ? "RGB" : "grey"},
      {"resize", is_antialiased ? "bilinear, antialiased (Pillow)" : "bilinear, top left aligned (TensorFlow 1)"},
      {"fit", text_of(fit_choices, decoding.fit)},
      {"background", {background.red, background.green, background.blue}}};
  if (decoding.fit == Fit::crop) json["shorter_side"] = decoding.shorter;
  if (decoding.fit == Fit::pad) json["padding"] = {padding.red, padding.green, padding.blue};
  return json;
}

/// Metadata that an ONNX model stores for programs that run it.
std::map<std::string, std::string> metadata_of(const LoadedCheckpoint& loaded, const ImageShape& image,
                                               const TrainedTarget& target, bool averages) {
  const auto text = [](const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::map<std::string, std::string> metadata{{"model", loaded.state.model},
                                              {"global_step", std::to_string(loaded.state.global_step)},
                                              {"values", averages ? "moving averages" : "variables"},
                                              {"preprocessing", text(preprocessing_of(loaded, image))}};
  if (!target.names.empty()) metadata.emplace("names", text(target.names));
  return metadata;
}

const std::vector<NamedArray>& exported_values(const LoadedCheckpoint& loaded, const Arguments& given) {
  return given.raw_weights ? loaded.state.variables : loaded.state.moving_averages;
}

/// Calls `write`. If it throws, adds the name of the checkpoint to the error.
template <typename Write>
auto naming_checkpoint(const LoadedCheckpoint& loaded, const Write& write) {
  try {
    return write();
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", loaded.path.string(), error.what());
  }
}

/// Writes the ONNX model and returns its number of bytes.
std::uint64_t export_onnx(const LoadedCheckpoint& loaded, const Arguments& given) {
  const CheckpointState& state = loaded.state;
  const Network network = network_of(loaded);
  const bool averages = !given.raw_weights && has_moving_averages(loaded);
  const TrainedTarget target = trained_target(loaded);
  const std::string model = naming_checkpoint(loaded, [&] {
    return onnx_model(network, {target.kind, target.scales}, exported_values(loaded, given), state.buffers,
                      metadata_of(loaded, network.image, target, averages));
  });
  write_file_atomically(given.onnx, std::as_bytes(std::span(model)));
  return model.size();
}

std::uint64_t export_safetensors(const LoadedCheckpoint& loaded, const Arguments& given) {
  const Network network = network_of(loaded);
  const auto arrays = naming_checkpoint(
      loaded, [&] { return torch_arrays(network, exported_values(loaded, given), loaded.state.buffers); });
  write_safetensors(given.safetensors, arrays);
  return std::filesystem::file_size(given.safetensors);
}

int export_network(const Arguments& given) {
  if (given.onnx.empty() == given.safetensors.empty()) {
    fail(ExitCode::usage, "export takes one of --onnx and --safetensors (see --help)");
  }
  const std::string& file = given.onnx.empty() ? given.safetensors : given.onnx;
  if (!given.safetensors.empty() && !file.ends_with(".safetensors")) {
    fail(ExitCode::usage, "--safetensors {}: --init-from reads only names that end in .safetensors", file);
  }
  check_output(file);
  const LoadedCheckpoint loaded = load(given.files.at(0));
  const std::uint64_t bytes = given.onnx.empty() ? export_safetensors(loaded, given) : export_onnx(loaded, given);
  fmt::print("wrote {}: {} of {}, {} bytes\n", printable(file), printable(loaded.state.model),
             printable(loaded.path.string()), bytes);
  return 0;
}

/// Returns one line per option, such as "    batch_size = 100". If the text is not a JSON object, returns it unchanged.
std::string options_text(const std::string& json) {
  const nlohmann::json options = nlohmann::json::parse(json, nullptr, false);
  if (!options.is_object()) return fmt::format("    {}\n", printable(json));
  std::string text;
  for (const auto& [name, value] : options.items()) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, replace);
    text += fmt::format("    {} = {}\n", printable(name), printable(shown));
  }
  return text;
}

void print_arrays(const std::vector<ListedArray>& arrays) {
  std::size_t width = 5;
  for (const ListedArray& listed : arrays) width = std::max(width, printable(listed.name).size());
  fmt::print("  {:<{}}  {:>18} {:>11} {:>11} {:>11} {:>11}\n", "array", width, "shape", "mean", "norm", "smallest",
             "largest");
  for (const ListedArray& listed : arrays) {
    const ArraySummary of = summarise(listed.array->values);
    const std::string bad = of.not_finite > 0 ? fmt::format("  {} not finite", of.not_finite) : "";
    fmt::print("  {:<{}}  {:>18} {:>11.4g} {:>11.4g} {:>11.4g} {:>11.4g}{}\n", printable(listed.name), width,
               shape_text(listed.array->shape), of.mean, of.norm, of.smallest, of.largest, bad);
  }
}

std::size_t value_count(const std::vector<NamedArray>& arrays) {
  std::size_t count = 0;
  for (const NamedArray& array : arrays) count += array.values.size();
  return count;
}

int inspect(const Arguments& given) {
  for (const std::string& file : given.files) {
    const LoadedCheckpoint loaded = load(file);
    const CheckpointState& state = loaded.state;
    fmt::print("{}\n  model {}, step {}, seed {}, next sample {}; {} parameters\n  options\n{}",
               printable(loaded.path.string()), printable(state.model), state.global_step, state.seed,
               state.stream_position, value_count(state.variables), options_text(state.options_json));
    std::vector<ListedArray> arrays = list_arrays(state);
    if (!has_moving_averages(loaded)) {
      std::erase_if(arrays, [](const ListedArray& listed) { return listed.name.starts_with("moving_averages/"); });
    }
    print_arrays(arrays);
  }
  return 0;
}

/// Checks that all values of the array `name` are finite. Errors: data (a value is not finite).
void require_finite(const std::string& file, const std::string& name, std::span<const float> values) {
  const std::size_t bad = summarise(values).not_finite;
  if (bad == 0) return;
  fail(ExitCode::data, "{}: {} of the {} values of '{}' are not finite", file, bad, values.size(), name);
}

int verify(const Arguments& given) {
  for (const std::string& file : given.files) {
    const LoadedCheckpoint loaded = load(file);
    const std::vector<ListedArray> arrays = list_arrays(loaded.state);
    for (const ListedArray& listed : arrays) {
      require_finite(loaded.path.string(), listed.name, listed.array->values);
    }
    fmt::print("{}: sound; model {}, step {}, {} arrays, all values finite\n", printable(loaded.path.string()),
               printable(loaded.state.model), loaded.state.global_step, arrays.size());
  }
  return 0;
}

/// Prints the lines of options_text that only one of the two checkpoints has.
void print_changed_options(const std::string& first, const std::string& second) {
  const auto lines = [](const std::string& text) {
    std::vector<std::string> found;
    for (std::size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1) {
      found.push_back(text.substr(at, end - at));
    }
    return found;
  };
  const std::vector<std::string> ours = lines(options_text(first)), theirs = lines(options_text(second));
  const auto print_others = [](const auto& from, const auto& in, char sign) {
    for (const std::string& line : from) {
      if (std::ranges::find(in, line) == in.end()) fmt::print("{} {}\n", sign, line);
    }
  };
  print_others(ours, theirs, '<');
  print_others(theirs, ours, '>');
}

/// Prints all differences, except differences between arrays. Returns true if there are none.
bool has_equal_facts(const CheckpointState& ours, const CheckpointState& theirs) {
  bool is_equal = true;
  const auto compare = [&](std::string_view name, const auto& a, const auto& b) {
    if (a == b) return;
    is_equal = false;
    fmt::print("{}: {} and {}\n", name, a, b);
  };
  compare("model", printable(ours.model), printable(theirs.model));
  compare("step", ours.global_step, theirs.global_step);
  compare("seed", ours.seed, theirs.seed);
  compare("next sample", ours.stream_position, theirs.stream_position);
  if (ours.network != theirs.network) {
    is_equal = false;
    fmt::print("the networks have different ops or attributes\n");
  }
  if (ours.options_json != theirs.options_json) {
    is_equal = false;
    fmt::print("options:\n");
    print_changed_options(ours.options_json, theirs.options_json);
  }
  return is_equal;
}

int diff(const Arguments& given) {
  const LoadedCheckpoint first = load(given.files.at(0)), second = load(given.files.at(1));
  const CheckpointState &ours = first.state, &theirs = second.state;
  bool is_equal = given.arrays_only || has_equal_facts(ours, theirs);
  for (const ArrayDifference& difference : differences(ours, theirs)) {
    is_equal = false;
    fmt::print("{}: {}\n", printable(difference.name), difference.text);
  }
  return is_equal ? 0 : differs;
}

void write_to(const std::string& output, CheckpointState state) {
  write_checkpoint(output, std::move(state));
  fmt::print("wrote {}\n", printable(output));
}

int average(const Arguments& given) {
  check_output(given.output);
  std::vector<LoadedCheckpoint> checkpoints;
  for (const std::string& file : given.files) checkpoints.push_back(load(file));
  write_to(given.output, mean_of(checkpoints));
  return 0;
}

int export_npz(const Arguments& given) {
  check_output(given.files.at(1));
  const LoadedCheckpoint loaded = load(given.files.at(0));
  const std::vector<ListedArray> arrays = list_arrays(loaded.state);
  write_npz(given.files.at(1), arrays);
  fmt::print("wrote {}: {} arrays of {}\n", printable(given.files.at(1)), arrays.size(),
             printable(loaded.path.string()));
  return 0;
}

int import_npz(const Arguments& given) {
  check_output(given.output);
  LoadedCheckpoint loaded = load(given.files.at(0));
  const std::string& source = given.files.at(1);
  std::map<std::string, NamedArray*> known;
  std::uint64_t most_bytes = 0;
  visit_arrays(loaded.state, [&](const std::string& name, NamedArray& array) {
    known.emplace(name, &array);
    most_bytes += array.values.size() * sizeof(double) + max_npy_header_bytes;
  });
  std::vector<NamedArray> arrays = read_npz(source, most_bytes);
  if (arrays.empty()) fail(ExitCode::data, "{}: the file contains no arrays", source);
  for (NamedArray& array : arrays) {
    const auto found = known.find(array.name);
    if (found == known.end()) {
      fail(ExitCode::data, "{}: {} has no array '{}'", source, loaded.path.string(), printable(array.name));
    }
    if (found->second->shape != array.shape) {
      fail(ExitCode::data, "{}: array '{}' has shape {}, expected {} as in {}", source, array.name,
           shape_text(array.shape), shape_text(found->second->shape), loaded.path.string());
    }
    require_finite(source, array.name, array.values);
    found->second->values = std::move(array.values);
  }
  write_to(given.output, std::move(loaded.state));
  return 0;
}

struct ToolCommand {
  int (*run)(const Arguments&);
  std::size_t least_files, most_files;
  bool has_output = false;
};

const std::map<std::string, ToolCommand, std::less<>> commands{
    {"inspect", {inspect, 1, SIZE_MAX}},       {"verify", {verify, 1, SIZE_MAX}},  {"diff", {diff, 2, 2}},
    {"average", {average, 2, SIZE_MAX, true}}, {"export", {export_network, 1, 1}}, {"export-npz", {export_npz, 2, 2}},
    {"import-npz", {import_npz, 2, 2, true}},
};

OptionSet option_set(Arguments& given) {
  OptionSet set({.program = "checkpoint_tool",
                 .purpose = "Inspects, compares, averages and exports checkpoints",
                 .synopses = {"checkpoint_tool COMMAND ..."},
                 .description = usage,
                 .words = {"inspect", "verify", "diff", "average", "export-npz", "export", "import-npz"},
                 .exit_statuses = {{0, "done"},
                                   {differs, "the checkpoints differ (diff)"},
                                   {64, "bad usage"},
                                   {65, "damaged or unsuitable file"},
                                   {66, "input file missing"},
                                   {74, "I/O error"}}});
  set.use_command_line_only();
  set.set_version(version_line("checkpoint_tool") + "\n");
  set.add("output", given.output, "file to write (average, import-npz); replaces an existing file").value_name = "OUT";
  set.add("onnx", given.onnx, "file to write (export); replaces an existing file").value_name = "OUT";
  set.add("safetensors", given.safetensors, "file to write (export); replaces an existing file").value_name = "OUT";
  set.add("arrays", given.arrays_only, "compare arrays only (diff)");
  set.add("raw-weights", given.raw_weights,
          "export the variables in place of the moving averages, if there are any (export)");
  return set;
}

int tool_main(int argc, char** argv) {
  Arguments given;
  OptionSet set = option_set(given);
  if (!set.parse_or_answer(argc, argv, given.files)) return 0;
  if (given.files.empty()) fail(ExitCode::usage, "no command (see --help)");
  const auto command = commands.find(given.files.front());
  if (command == commands.end()) {
    fail(ExitCode::usage, "unknown command '{}' (see --help)", printable(given.files.front()));
  }
  given.files.erase(given.files.begin());
  const auto& [name, of] = *command;
  const std::size_t count = given.files.size();
  if (count < of.least_files || count > of.most_files) {
    fail(ExitCode::usage, "{} takes {}{}, not {} (see --help)", name, count_text(of.least_files, "file"),
         of.most_files > of.least_files ? " or more" : "", count);
  }
  if (of.has_output && given.output.empty()) fail(ExitCode::usage, "{}: --output is missing (see --help)", name);
  const bool exports = of.run == export_network;
  for (const auto& [option, applies] : {std::pair("output", of.has_output),
                                        {"onnx", exports},
                                        {"safetensors", exports},
                                        {"raw-weights", exports},
                                        {"arrays", of.run == diff}}) {
    if (set.given(option) && !applies) {
      fail(ExitCode::usage, "--{} does not apply to {} (see --help)", option, name);
    }
  }
  return of.run(given);
}

}  // namespace

int checkpoint_tool_main(int argc, char** argv) {
  return single_process_main("checkpoint_tool", [&] { return tool_main(argc, argv); });
}

}  // namespace carillon
