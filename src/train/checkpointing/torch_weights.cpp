#include "src/train/checkpointing/torch_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <map>

#include "carillon/core/error.h"
#include "src/checkpoint/array_files.h"
#include "src/checkpoint/named_arrays.h"
#include "src/cli/options/option_set.h"
#include "src/core/text.h"
#include "src/models/pretrained.h"

namespace carillon {
namespace {

/// Checks that the network has PyTorch's names. `subject`: beginning of the message, such as "weights.safetensors: ";
/// may be empty. Errors: usage (it has no such names).
void check_names(const std::string& subject, const NetworkDescription& network) {
  if (!network.torch_names.empty()) return;
  fail(ExitCode::usage,
       "{}PyTorch's names of the arrays of {} are not known (they are known for the networks that torchvision and timm "
       "have, too)",
       subject, network.name);
}

/// Returns PyTorch's name of an array. Errors: data (the description does not contain the name).
const std::string& torch_name(const NetworkDescription& network, const std::string& array) {
  const auto found = network.torch_names.find(array);
  if (found != network.torch_names.end()) return found->second;
  fail(ExitCode::data, "the description of {} has no name of PyTorch for '{}'", network.name, printable(array));
}

/// An array that the network needs.
struct WantedArray {
  const std::string* name;
  std::vector<std::int64_t> shape;
  std::vector<NamedArray>* group;  ///< the group that receives the array
  bool is_embedding = false;
};

/// Returns, for example, "; the most similar name is 'fc.weight'".
std::string similar(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = nearest(name, names);
  return near.empty() ? "" : fmt::format("; the most similar name is '{}'", printable(near));
}

std::vector<std::string> names_of(const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  return names;
}

/// Returns the common beginning of all names, up to a dot. The common beginning may be empty. Wrappers of a network add
/// such a beginning: "module." (data parallel trainings), "model." (Lightning), "_orig_mod." (torch.compile).
std::string common_prefix(const std::vector<SafetensorsEntry>& entries) {
  if (entries.empty()) return "";
  std::string_view common = entries.front().name;
  for (const SafetensorsEntry& entry : entries) {
    const auto differs = std::ranges::mismatch(common, entry.name);
    common = common.substr(0, static_cast<std::size_t>(differs.in1 - common.begin()));
  }
  return std::string(common.substr(0, common.rfind('.') + 1));  // if rfind finds nothing, npos + 1 is 0
}

/// Names of arrays that other packages use for networks of the same kinds.
struct OtherNames {
  std::string_view part;  ///< text that some of the package's array names contain
  std::string_view package;
};
constexpr OtherNames other_names[] = {
    {"embedder.embedder.convolution.", "transformers' ResNets"},
    {"embeddings.patch_embeddings.projection.", "transformers' vision transformers"},
    {"embeddings.patch_embeddings.weight", "transformers' ConvNeXts"},
    {"encoder.layers.encoder_layer_0.", "torchvision's vision transformers"},
    {"features.0.0.weight", "torchvision's ConvNeXts, EfficientNets and MobileNets"},
    {"downsample_layers.0.0.", "Facebook's ConvNeXts"},
    {"visual.transformer.resblocks.", "CLIP"},
    {"layers.0.blocks.0.attn.relative_position_bias_table", "timm's Swin transformers"},
};

/// Returns a sentence that states which array names are supported, and which package uses the names in the file.
/// Returns an empty text if no such package is known.
std::string other_package(const std::vector<SafetensorsEntry>& entries) {
  for (const OtherNames& other : other_names) {
    const auto has_part = [&](const SafetensorsEntry& entry) {
      return entry.name.find(other.part) != std::string::npos;
    };
    if (std::ranges::any_of(entries, has_part)) {
      return fmt::format(
          "has the names of {}, which are not supported: save the weights with torchvision's names of a ResNet, or "
          "timm's names of a ConvNeXt or vision transformer",
          other.package);
    }
  }
  return "";
}

/// True if PyTorch pickled the file. The name of the file shows this, or its first bytes are the beginning of a pickle
/// or a zip archive.
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

/// Reads the values of an entry. Errors: see SafetensorsFile::read; data (a value is not finite).
std::vector<float> finite_values(const SafetensorsFile& file, const SafetensorsEntry& entry,
                                 const std::filesystem::path& path) {
  std::vector<float> values = file.read(entry).values;
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad != values.end()) fail(ExitCode::data, "{}: '{}' has the value {}", path.string(), entry.name, *bad);
  return values;
}

/// Returns a number that shows how well `arrays` match the network: the number of arrays that match by name and shape,
/// minus the number of arrays that the network does not have. Returns 0 if at most half of the network's arrays match.
std::ptrdiff_t match(const Network& network, const std::vector<TorchArray>& arrays) {
  Graph graph(1, Arithmetic::fp32, {.image = network.image});
  add_network(graph, network);
  std::map<std::string, std::vector<std::int64_t>> shapes;  // by PyTorch's name
  const auto add_shapes = [&](const auto& specs) {
    for (const auto& spec : specs)
      shapes[torch_name(network, spec.name)] = torch_shape(spec.name, spec.shape.extents());
  };
  add_shapes(graph.parameters());
  add_shapes(graph.buffers());
  std::ptrdiff_t same = 0, others = 0;
  for (const TorchArray& array : arrays) {
    if (is_only_torchs(array.name)) continue;
    const auto found = shapes.find(array.name);
    if (found == shapes.end()) {
      ++others;
    } else if (found->second == array.shape) {
      ++same;
    }
  }
  return 2 * same > static_cast<std::ptrdiff_t>(shapes.size()) ? same - others : 0;
}

}  // namespace

bool is_weight_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return false;
  if (is_pickled(path)) refuse_pickled(path);
  return path.extension() == ".safetensors";
}

const Network* network_with(const std::vector<TorchArray>& arrays, const std::vector<Network>& networks) {
  const Network* best = nullptr;
  std::ptrdiff_t most = 0;
  for (const Network& network : networks) {
    const std::ptrdiff_t found = match(network, arrays);
    if (found <= most) continue;
    best = &network;
    most = found;
  }
  return best;
}

std::string network_of_weight_file(const std::filesystem::path& path, const std::vector<Network>& networks) {
  const SafetensorsFile file(path);
  std::vector<TorchArray> arrays;
  for (const SafetensorsEntry& entry : file.entries()) arrays.push_back({entry.name, entry.shape});
  if (const Network* const network = network_with(arrays, networks)) return network->name;
  const std::size_t prefix = common_prefix(file.entries()).size();
  for (TorchArray& array : arrays) array.name.erase(0, prefix);
  if (const Network* const network = network_with(arrays, networks)) return network->name;
  if (const std::string other = other_package(file.entries()); !other.empty()) {
    fail(ExitCode::data, "{}: {}", path.string(), other);
  }
  std::vector<std::string_view> names;
  for (const Network& network : networks) names.push_back(network.name);
  fail(ExitCode::data, "{}: its arrays are those of none of these networks: {}", path.string(), fmt::join(names, ", "));
}

std::string last_layer(const std::vector<ParameterSpec>& variables) {
  const std::string& name = variables.back().name;
  return name.substr(0, name.rfind('/'));
}

CheckpointState read_weight_file(const std::filesystem::path& path, const NetworkDescription& network,
                                 const std::vector<ParameterSpec>& variables, const std::vector<BufferSpec>& buffers,
                                 const std::vector<std::string>& excluded,
                                 const std::function<void(const std::string&)>& note) {
  check_names(path.string() + ": ", network);
  const std::string& model = network.name;
  CheckpointState state{.model = model, .options_json = "{}"};
  std::map<std::string, WantedArray> wanted;  // by PyTorch's name
  std::vector<std::string> wanted_names;
  const auto want = [&](const auto& specs, std::vector<NamedArray>& group) {
    for (const auto& spec : specs) {
      const std::string& name = torch_name(network, spec.name);
      wanted_names.push_back(name);
      WantedArray array{&spec.name, spec.shape.extents(), &group};
      if constexpr (requires { spec.is_embedding; }) array.is_embedding = spec.is_embedding;
      wanted.emplace(name, std::move(array));
    }
  };
  want(variables, state.variables);
  want(buffers, state.buffers);

  const SafetensorsFile file(path);
  const auto is_wanted = [&](const SafetensorsEntry& entry) { return wanted.contains(entry.name); };
  const std::string prefix = std::ranges::any_of(file.entries(), is_wanted) ? "" : common_prefix(file.entries());
  for (const SafetensorsEntry& entry : file.entries()) {
    if (is_only_torchs(entry.name)) continue;
    const auto found = wanted.find(entry.name.substr(prefix.size()));
    if (found == wanted.end()) {
      if (const std::string other = other_package(file.entries());
          !other.empty() && wanted.size() == wanted_names.size()) {
        fail(ExitCode::data, "{}: {}", path.string(), other);
      }
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
    if (entry.shape != torch_shape(*array.name, array.shape)) {
      const std::string layer = last_layer(variables);
      const bool is_of_output = array.name->starts_with(layer + "/");
      const std::string hint = is_of_output ? fmt::format(" (for other classes: --init-exclude '{}/*')", layer) : "";
      fail(ExitCode::data, "{}: '{}' is {}, and that of {} is {}{}", path.string(), entry.name, shape_text(entry.shape),
           model, shape_text(torch_shape(*array.name, array.shape)), hint);
    }
    array.group->push_back(
        {*array.name, array.shape, from_torch_layout(*array.name, finite_values(file, entry, path), array.shape)});
  }
  for (const auto& [name, array] : wanted) {
    if (matches_any(excluded, *array.name)) continue;
    fail(ExitCode::data, "{}: has no '{}' ({}) of {}{}", path.string(), name, *array.name, model,
         similar(name, names_of(file.entries())));
  }
  if (!prefix.empty()) note(fmt::format("{}: ignored '{}' before all names", path.string(), prefix));
  return state;
}

std::vector<NamedArray> torch_arrays(const NetworkDescription& network, const std::vector<NamedArray>& variables,
                                     const std::vector<NamedArray>& buffers) {
  check_names("", network);
  std::vector<NamedArray> arrays;
  for (const auto* const group : {&variables, &buffers}) {
    for (const NamedArray& array : *group) {
      arrays.push_back({torch_name(network, array.name), torch_shape(array.name, array.shape),
                        to_torch_layout(array.name, array.values, array.shape)});
    }
  }
  return arrays;
}

namespace {

/// Treats an array of 2 or 4 dimensions as [places][in][out]. A place is one position in the kernel of a convolution. A
/// dense layer has one place.
struct Extents {
  std::size_t places = 1, in = 0, out = 0;
};

/// Calls move(index in Carillon's layout, index in PyTorch's layout) for each value.
template <typename Move>
void for_each_value(const Extents& extents, const Move& move) {
  for (std::size_t place = 0; place < extents.places; ++place) {
    for (std::size_t in = 0; in < extents.in; ++in) {
      for (std::size_t out = 0; out < extents.out; ++out) {
        move((place * extents.in + in) * extents.out + out, (out * extents.in + in) * extents.places + place);
      }
    }
  }
}

bool differs(std::string_view name, const std::vector<std::int64_t>& shape) {
  return name.ends_with("/weights") && (shape.size() == 2 || shape.size() == 4);
}

Extents extents_of(const std::vector<std::int64_t>& shape, std::size_t count) {
  const std::size_t n = shape.size();
  Extents extents{.in = static_cast<std::size_t>(shape[n - 2]), .out = static_cast<std::size_t>(shape[n - 1])};
  for (std::size_t i = 0; i + 2 < n; ++i) extents.places *= static_cast<std::size_t>(shape[i]);
  check(extents.places * extents.in * extents.out == count, "the shape must be that of the values");
  return extents;
}

}  // namespace

std::vector<std::int64_t> torch_shape(std::string_view name, const std::vector<std::int64_t>& shape) {
  if (!differs(name, shape)) return shape;
  if (shape.size() == 4) return {shape[3], shape[2], shape[0], shape[1]};
  return {shape[1], shape[0]};
}

std::vector<float> to_torch_layout(std::string_view name, const std::vector<float>& values,
                                   const std::vector<std::int64_t>& shape) {
  if (!differs(name, shape)) return values;
  std::vector<float> result(values.size());
  for_each_value(extents_of(shape, values.size()),
                 [&](std::size_t ours, std::size_t torchs) { result[torchs] = values[ours]; });
  return result;
}

std::vector<float> from_torch_layout(std::string_view name, const std::vector<float>& values,
                                     const std::vector<std::int64_t>& shape) {
  if (!differs(name, shape)) return values;
  std::vector<float> result(values.size());
  for_each_value(extents_of(shape, values.size()),
                 [&](std::size_t ours, std::size_t torchs) { result[ours] = values[torchs]; });
  return result;
}

}  // namespace carillon
