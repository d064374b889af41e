#include "src/train/checkpointing/torch_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>

#include "carillon/core/error.h"
#include "src/checkpoint/named_arrays.h"
#include "src/checkpoint/safetensors.h"
#include "src/checkpoint/torch_layout.h"
#include "src/cli/options/option_values.h"
#include "src/core/text.h"
#include "src/models/position_grid.h"
#include "src/models/torch_names.h"

namespace carillon {
namespace {

/// `subject`: "weights.safetensors: ", or nothing.
void check_names(const std::string& subject, const std::string& model) {
  if (has_torch_names(model)) return;
  fail(ExitCode::usage, "{}PyTorch's names of the arrays of {} are not known; networks with known names: {}", subject,
       model, networks_with_torch_names());
}

/// An array that the network needs.
struct WantedArray {
  const std::string* name;
  std::vector<std::int64_t> shape;
  std::vector<NamedArray>* group;  ///< receives it
  bool is_embedding = false;
};

/// "; the most similar name is 'fc.weight'"
std::string similar(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = nearest(name, names);
  return near.empty() ? "" : fmt::format("; the most similar name is '{}'", printable(near));
}

std::vector<std::string> names_of(const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  return names;
}

/// Whether PyTorch pickled the file, according to its name or to its first bytes, which are those of a pickle or a zip
/// archive.
bool is_pickled(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return false;
  const std::filesystem::path extension = path.extension();
  for (const char* const pickled : {".pt", ".pth", ".bin"}) {
    if (extension == pickled) return true;
  }
  if (!std::filesystem::is_regular_file(path, error)) return false;  // opening a pipe would wait
  std::array<char, 4> first{};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  const bool is_archive = std::string_view(first.data(), first.size()) == "PK\x03\x04";
  const bool is_pickle = first[0] == '\x80' && first[1] >= 2 && first[1] <= 5 && extension != ".safetensors";
  return is_pickle || (is_archive && extension != ".npz");
}

[[noreturn]] void refuse_pickled(const std::filesystem::path& path) {
  std::filesystem::path converted = path;
  converted.replace_extension(".safetensors");
  if (converted == path) converted.replace_filename("converted.safetensors");
  fail(ExitCode::usage,
       "{}: PyTorch pickled it; such a file can contain programs. Convert it: python3 -c 'import sys, torch, "
       "safetensors.torch as s; d = torch.load(sys.argv[1], \"cpu\", weights_only=True); "
       "s.save_file(d.get(\"model\", d.get(\"state_dict\", d)), sys.argv[2])' {} {}",
       path.string(), shell_word(path.string()), shell_word(converted.string()));
}

/// The values of an entry. Errors: as SafetensorsFile::read; data (a value is not finite).
std::vector<float> finite_values(const SafetensorsFile& file, const SafetensorsEntry& entry,
                                 const std::filesystem::path& path) {
  std::vector<float> values = file.read(entry).values;
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad != values.end()) fail(ExitCode::data, "{}: '{}' has the value {}", path.string(), entry.name, *bad);
  return values;
}

}  // namespace

bool is_weight_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return false;
  if (is_pickled(path)) refuse_pickled(path);
  return path.extension() == ".safetensors";
}

std::string network_of_weight_file(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<TorchArray> arrays;
  for (const SafetensorsEntry& entry : file.entries()) arrays.push_back({entry.name, entry.shape});
  const std::string network = torch_network(arrays);
  if (!network.empty()) return network;
  fail(ExitCode::data, "{}: its arrays are those of none of these networks: {}", path.string(),
       networks_with_torch_names());
}

CheckpointState read_weight_file(const std::filesystem::path& path, const std::string& model,
                                 const std::vector<ParameterSpec>& variables, const std::vector<BufferSpec>& buffers,
                                 const std::vector<std::string>& excluded) {
  check_names(path.string() + ": ", model);
  CheckpointState state{.model = model, .options_json = "{}"};
  std::map<std::string, WantedArray> wanted;  // by PyTorch's name
  std::vector<std::string> wanted_names;
  const auto want = [&](const auto& specs, std::vector<NamedArray>& group) {
    for (const auto& spec : specs) {
      const std::string name = torch_name(model, spec.name);
      wanted_names.push_back(name);
      WantedArray array{&spec.name, spec.shape.extents(), &group};
      if constexpr (requires { spec.is_embedding; }) array.is_embedding = spec.is_embedding;
      wanted.emplace(name, std::move(array));
    }
  };
  want(variables, state.variables);
  want(buffers, state.buffers);

  const SafetensorsFile file(path);
  for (const SafetensorsEntry& entry : file.entries()) {
    if (is_only_torchs(entry.name)) continue;
    const auto found = wanted.find(entry.name);
    if (found == wanted.end()) {
      fail(ExitCode::data, "{}: {} has no array '{}'{}", path.string(), model, printable(entry.name),
           similar(entry.name, wanted_names));
    }
    const WantedArray array = found->second;
    wanted.erase(found);
    if (matches_any(excluded, *array.name)) continue;
    if (array.is_embedding && entry.shape != array.shape && are_position_grids(entry.shape, array.shape)) {
      array.group->push_back(
          {*array.name, array.shape, resized_positions(finite_values(file, entry, path), entry.shape, array.shape)});
      continue;
    }
    if (entry.shape != torch_shape(array.shape)) {
      const char* const hint =
          array.name->starts_with("logits/") ? " (for other classes: --init-exclude 'logits/*')" : "";
      fail(ExitCode::data, "{}: '{}' is {}, and that of {} is {}{}", path.string(), entry.name, shape_text(entry.shape),
           model, shape_text(torch_shape(array.shape)), hint);
    }
    array.group->push_back(
        {*array.name, array.shape, from_torch_layout(finite_values(file, entry, path), array.shape)});
  }
  for (const auto& [name, array] : wanted) {
    if (matches_any(excluded, *array.name)) continue;
    fail(ExitCode::data, "{}: has no '{}' ({}) of {}{}", path.string(), name, *array.name, model,
         similar(name, names_of(file.entries())));
  }
  return state;
}

std::vector<NamedArray> torch_arrays(const std::string& model, const std::vector<NamedArray>& variables,
                                     const std::vector<NamedArray>& buffers) {
  check_names("", model);
  std::vector<NamedArray> arrays;
  for (const auto* const group : {&variables, &buffers}) {
    for (const NamedArray& array : *group) {
      arrays.push_back(
          {torch_name(model, array.name), torch_shape(array.shape), to_torch_layout(array.values, array.shape)});
    }
  }
  return arrays;
}

}  // namespace carillon
