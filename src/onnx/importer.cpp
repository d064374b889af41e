#include "src/onnx/importer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "kernels/image_input/image_input.h"
#include "src/graph/passes.h"
#include "src/models/layers.h"

namespace carillon {

// Names

std::string Importer::stripped(std::string name, std::string_view type) {
  while (name.starts_with('/')) name.erase(0, 1);
  const std::string end = fmt::format("/{}", type);
  if (name.ends_with(end)) name.resize(name.size() - end.size());
  std::ranges::replace(name, ':', '_');
  if (!is_line(name)) name.clear();
  constexpr std::size_t most = 200;
  if (name.size() > most) name.resize(most);
  if (name.empty() || !is_line(name)) name = fmt::format("op/{}", is_line(type) ? type : "unnamed");
  return name;
}

std::string Importer::unique_name(std::string name) {
  if (name == NetworkDescription{}.input) name += "_op";
  std::string unique = name;
  if (names_.insert(unique).second) return unique;
  int& count = name_counts_.try_emplace(name, 1).first->second;  // without this counter, equal names would need
                                                                 // quadratic time
  do unique = fmt::format("{}_{}", name, ++count);
  while (!names_.insert(unique).second);
  return unique;
}

std::string Importer::layer_name(const OnnxNode& node, const OnnxArray& weights) {
  const bool is_named = !weights.name.empty() && !weights.name.starts_with("onnx::") && weights.name != node.output();
  if (!is_named) return op_name(node);
  std::string name = weights.name;
  for (const std::string_view end : {".weight", "/weight", "/kernel", "_weight", ".W"}) {
    if (!name.ends_with(end)) continue;
    name.resize(name.size() - end.size());
    break;
  }
  std::ranges::replace(name, '.', '/');
  return unique_name(stripped(std::move(name), node.type()));
}

void Importer::give(const std::string& variable, const OnnxArray& array, const Stored& stored) {
  // PyTorch's exporter merges equal arrays, such as all biases before a training. If an array only repeats one number,
  // sharing it may be a coincidence, so each of its readers gets its own variable.
  const bool is_repeated = std::ranges::adjacent_find(array.floats, std::not_equal_to<>()) == array.floats.end();
  if (!array.name.empty() && !array.is_derived && !is_repeated) {
    // A file may transpose an array or convert its numbers. The result has the same name and different values.
    const std::size_t values = std::hash<std::string_view>{}(
        {reinterpret_cast<const char*>(array.floats.data()), array.floats.size() * sizeof(float)});
    const std::string key = fmt::format("{} {} {} {:x}", stored.order, array.name, fmt::join(array.shape, ","), values);
    const auto [first, is_first] = variables_.emplace(key, variable);
    if (!is_first) return graph_.share_parameter(variable, first->second);
  }
  give_values(variable, array, stored);
}

void Importer::give_buffer(const std::string& buffer, const OnnxArray& array) { give_values(buffer, array, {}); }

void Importer::give_values(const std::string& name, const OnnxArray& array, const Stored& stored) {
  elements_ += array.element_count();
  if (elements_ > most_elements)
    fail(ExitCode::data, "{}: its layers read too many values", source_.file.path().string());
  // If several variables store one array, only one of them can have the array's name.
  const bool has_array_name = stored.keeps_name && !array.name.empty() && !array.is_derived && is_line(array.name) &&
                              given_names_.insert(array.name).second;
  original_names_[name] = has_array_name ? array.name : name;
  if (!source_.options.fresh_weights) given_.push_back({name, stored.values ? stored.values() : array.floats});
}

const OnnxNode* Importer::sole_reader(const std::string& value) const {
  const auto found = source_.readers.find(value);
  if (found == source_.readers.end() || found->second.size() != 1 || value == end_) return nullptr;
  return &source_.file.nodes()[found->second.front()];
}

std::int64_t Importer::units_of(const OnnxNode& node, std::int64_t units, const std::string& name, bool& is_new) {
  is_new = is_head(node) && settings_.outputs > 0 && settings_.outputs != units;
  if (!is_new) return units;
  notes_.push_back(fmt::format("{}: the layer {} gets new values: {} outputs in place of {}",
                               source_.file.path().string(), printable(name), settings_.outputs, units));
  return settings_.outputs;
}

namespace {

/// Whether nodes of this type only copy, reshape or convert, so that they may follow the last layer.
bool only_ends(std::string_view type) {
  return type == "Identity" || type == "Flatten" || type == "Reshape" || type == "Squeeze" || type == "Cast";
}
bool turns_into_probabilities(std::string_view type) {
  return type == "Softmax" || type == "Sigmoid" || type == "LogSoftmax";
}
bool is_layer(std::string_view type) { return type == "Gemm" || type == "MatMul" || type == "Conv"; }

/// Returns null if no op computes this operator.
const Operator* operator_of(std::string_view type) {
  for (const std::span<const Operator> operators :
       {arithmetic_operators(), convolution_operators(), gather_operators(), norm_operators(), part_operators(),
        pool_operators(), product_operators(), reduction_operators(), resize_operators(), shape_operators()}) {
    const auto found = std::ranges::find(operators, type, &Operator::type);
    if (found != operators.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

void Importer::find_end() {
  end_ = source_.file.output();
  const OnnxNode* node = source_.producer(end_);
  // Omits this node, because the loss computes the probabilities.
  if (node != nullptr && turns_into_probabilities(node->type())) {
    end_ = node->input(0);
    node = source_.producer(end_);
  }
  for (std::size_t steps = 0; node != nullptr && steps < source_.file.nodes().size(); ++steps) {
    if (is_layer(node->type())) break;
    const auto is_array = [&](int i) { return source_.file.constants().contains(node->input(i)); };
    const bool adds_biases = node->type() == "Add" && (is_array(0) || is_array(1));
    const bool leads_on = only_ends(node->type()) || adds_biases;
    node = leads_on ? source_.producer(node->input(adds_biases && is_array(0) ? 1 : 0)) : nullptr;
  }
  head_ = node;
  if (source_.options.head.empty()) return;
  head_ = nullptr;
  std::vector<std::string> layers;
  for (const OnnxNode& one : source_.file.nodes()) {
    if (!is_layer(one.type())) continue;
    const auto weights = source_.file.constants().find(one.input(1));
    std::string name = stripped(one.name(), one.type());
    if (weights != source_.file.constants().end()) {
      name = weights->second->name.substr(0, weights->second->name.rfind(".weight"));
    }
    layers.push_back(name);
    if (name == source_.options.head || one.name() == source_.options.head) head_ = &one;
  }
  if (head_ != nullptr) return;
  const std::size_t first = layers.size() > 10 ? layers.size() - 10 : 0;
  layers.erase(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(first));
  fail(ExitCode::usage, "--head {}: no layer of {} has this name; its last layers are {}", source_.options.head,
       source_.file.path().string(), printable(fmt::format("{}", fmt::join(layers, ", "))));
}

/// Finds the nodes on which the output depends. Other nodes may be, for example, auxiliary classifiers.
void Importer::find_needed() {
  std::vector<const OnnxNode*> open{source_.producer(end_)};
  while (!open.empty()) {
    const OnnxNode* const node = open.back();
    open.pop_back();
    if (node == nullptr || !needed_.insert(node).second) continue;
    for (int i = 0; i < node->input_count(); ++i) open.push_back(source_.producer(node->input(i)));
  }
}

/// Checks that an op exists for each node that the output needs and that depends on the images. The error message lists
/// the operators without an op.
void Importer::check_operators() const {
  std::set<std::string> variable{source_.file.input()};
  std::map<std::string, std::vector<std::string>> unsupported;
  for (const OnnxNode& node : source_.file.nodes()) {
    if (!needed_.contains(&node)) continue;
    bool depends = false;
    for (int i = 0; i < node.input_count(); ++i) depends = depends || variable.contains(node.input(i));
    const bool draws = node.type().starts_with("Random") || node.type() == "Bernoulli";
    if ((!depends || node.type() == "Shape") && !draws) continue;
    for (int i = 0; i < node.output_count(); ++i) variable.insert(node.output(i));
    if (draws || (node.type() == "Floor" || node.type() == "Less")) continue;  // add_draw or add reports them
    if (operator_of(node.type()) == nullptr) unsupported[std::string(node.type())].push_back(node.name());
  }
  if (unsupported.empty()) return;
  std::vector<std::string> texts;
  for (const auto& [type, nodes] : unsupported) {
    texts.push_back(fmt::format("{} ({}node '{}')", type,
                                nodes.size() > 1 ? fmt::format("{} nodes, first ", nodes.size()) : "", nodes.front()));
  }
  fail(ExitCode::data, "{}: cannot be trained: no op computes the {} {}", source_.file.path().string(),
       texts.size() > 1 ? "operators" : "operator", printable(fmt::format("{}", fmt::join(texts, ", "))));
}

/// Adds a note if the file has convolutions but no batch norms: exports for inference fold batch norms into
/// convolutions.
void Importer::note_folded_norms() {
  constexpr std::int64_t many = 5;
  const std::vector<OnnxNode>& nodes = source_.file.nodes();
  const bool has_norms = std::ranges::any_of(
      nodes, [](const OnnxNode& node) { return node.type().find("Normalization") != std::string_view::npos; });
  if (has_norms || std::ranges::count(nodes, "Conv", &OnnxNode::type) < many) return;
  notes_.push_back(fmt::format(
      "{}: has no batch norms; if it was exported for inference, they are folded into the convolutions{}",
      source_.file.path().string(),
      source_.file.is_of_pytorch()
          ? ". PyTorch keeps them with torch.onnx.export(model.eval(), ..., dynamo=False, do_constant_folding=False, "
            "training=torch.onnx.TrainingMode.PRESERVE)"
          : ", and the training cannot adapt them"));
}

void Importer::place_input() {
  const ImageShape& image = settings_.image;
  const Extents& shape = source_.file.input_shape();
  if (shape.size() != 4) {
    fail(ExitCode::data, "{}: its input has {}, expected the 4 of [batch, channels, height, width]",
         source_.file.path().string(), count_text(shape.size(), "extent"));
  }
  const bool channels_last = source_.has_channels_last();
  const std::int64_t channels = channels_last ? shape[3] : shape[1];
  if (channels > 0 && channels != image.channels) {
    fail(ExitCode::usage, "{}: is for images with {}; these images have {}", source_.file.path().string(),
         count_text(channels, "channel"), image.channels);
  }
  names_.insert("input");
  const Value value =
      image.channels == 3 ? imagenet_input(graph_, settings_) : image_input(graph_, "input", scaled_images(settings_));
  if (channels_last) {
    placed_[source_.file.input()] =
        placed(value, {batch_mark, image.height, image.width, image.channels}, ascending(4));
  } else {
    placed_[source_.file.input()] = placed(value, {batch_mark, image.channels, image.height, image.width}, image_order);
  }
}

bool Importer::add_constant(const OnnxNode& node, std::span<const OnnxConstant> inputs) {
  if (!can_fold(node.type()) || repeats_for_samples(node)) return false;
  if (node.type() == "Gather" && inputs.size() > 1 && inputs[0] && inputs[1]) {
    const OnnxArray& array = *inputs[0];
    // A gather of elements that are not consecutive is not folded if the array is trained: copies of one element must
    // stay equal.
    const bool is_trained = array.has_floats && !array.name.empty() && !array.is_derived && !array.shape.empty();
    if (is_trained && !inputs[1]->has_floats && !are_consecutive(inputs[1]->integers)) return false;
  }
  const OnnxConstant folded = fold_with_batch(node, inputs, operator_set(), source_.file);
  for (const OnnxConstant& one : inputs) charge(node, one && !one->is_hollow ? one->element_count() : 0);
  charge(node, folded->is_hollow ? 0 : folded->element_count());
  if (node.type() == "MatMul" || node.type() == "Gemm")
    charge(node, folded->element_count() * inputs[0]->shape.back() / 8);
  constants_[node.output()] = folded;
  return true;
}

/// If an input is a constant with a row for each sample, adds the constant as a value. The first input of a convolution
/// may have one row, which exporters repeat later.
void Importer::place_constants(const OnnxNode& node) {
  for (int i = 0; i < node.input_count(); ++i) {
    const OnnxConstant array = constant(node, i);
    if (array == nullptr || !array->has_floats || array->is_hollow || array->shape.size() < 2) continue;
    const bool is_input = i == 0 && node.type() == "Conv" && array->shape[0] == 1;
    if (!array->repeats_batch && !is_input) continue;
    placed_[node.input(i)] = variable(node, *array, array->shape.size(), ascending(array->shape.size()));
    if (is_input) one_row.insert(node.output());
    constants_.erase(node.input(i));
  }
}

void Importer::add(const OnnxNode& node) {
  constexpr std::size_t most_values = 100'000;
  if (graph_.values().size() > most_values) refuse(node, "is one of too many nodes");
  try {
    add_unchecked(node);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(source_.file.path().string())) throw;
    refuse(node, fmt::format("cannot be trained: {}", error.what()));
  }
}

void Importer::add_unchecked(const OnnxNode& node) {
  if (skipped_.contains(node.output())) return;
  if (add_draw(node)) return;
  std::vector<OnnxConstant> inputs;
  bool are_constant = true;
  for (int i = 0; i < node.input_count(); ++i) {
    const std::string name = node.input(i);
    inputs.push_back(shaped_constant(name));
    if (name.empty() || inputs.back() != nullptr) continue;
    are_constant = false;
    if (!placed_.contains(name) && !sequences.contains(name))
      refuse(node, fmt::format("reads '{}', which no node before it computes", printable(name)));
  }
  if (node.type() == "Shape" && !are_constant) {
    // The node needs only the shape of its input, which is known.
    OnnxArray known{.shape = input(node).file_shape(), .has_floats = true, .floats = {}, .integers = {}, .name = {}};
    const OnnxConstant only[] = {std::make_shared<const OnnxArray>(std::move(known))};
    constants_[node.output()] = fold(node, only, operator_set(), source_.file);
    return;
  }
  if (are_constant && add_constant(node, inputs)) return;
  if (node.type() == "CastLike" && inputs[0] != nullptr && !inputs[0]->is_hollow) {  // values are float32
    OnnxArray numbers = *inputs[0];
    if (!numbers.has_floats) {
      numbers.floats.assign(numbers.integers.begin(), numbers.integers.end());
      numbers.has_floats = true;
      numbers.integers.clear();
      numbers.name.clear();  // integers are not trained
    }
    constants_[node.output()] = std::make_shared<const OnnxArray>(std::move(numbers));
    return;
  }
  place_constants(node);
  const Operator* const found = operator_of(node.type());
  if (found == nullptr) {
    refuse(node, are_constant ? "has constant inputs, which is not read" : "cannot be trained: no op computes it");
  }
  for (int i = 0; i < node.input_count(); ++i) {
    if (is_placed(node, i) && input(node, i).lacks_batch() && !found->reads_parameters)
      refuse(node, "reads a value that was computed from arrays only, which is not supported");
  }
  reads_parameters_ = found->reads_parameters;
  found->add(*this, node);
  if (one_row.contains(node.input(0)) && keeps_one_row(node)) one_row.insert(node.output());
}

bool Importer::keeps_one_row(const OnnxNode& node) const {
  for (int i = 1; i < node.input_count(); ++i) {
    if (is_placed(node, i) && !one_row.contains(node.input(i))) return false;
  }
  const bool repeats = node.type() == "Tile" || node.type() == "Expand";
  const OnnxConstant extents = repeats ? constant(node, 1) : nullptr;
  return extents == nullptr || extents->integers.empty() || extents->integers[0] % batch_mark != 0;
}

const Placed& Importer::input(const OnnxNode& node, int i) {
  const auto found = placed_.find(node.input(i));
  if (found != placed_.end()) return found->second;
  const auto known = parameters_.find(node.input(i));
  if (reads_parameters_ && known != parameters_.end()) return known->second;
  const OnnxConstant values = constant(node, i);
  if (!reads_parameters_ || values == nullptr || !values->has_floats)
    refuse(node, fmt::format("has a constant as input {}, which is not read", i));
  return parameters_[node.input(i)] = parameter(node, *values);  // for example a softmax of trained weights
}

void Importer::check_given() const {
  std::map<std::string, std::int64_t> counts;
  for (const ParameterSpec& spec : graph_.parameters()) counts[spec.name] = spec.shape.element_count();
  for (const BufferSpec& spec : graph_.buffers()) counts[spec.name] = spec.shape.element_count();
  for (const GivenValues& values : given_) {
    if (counts[values.variable] == static_cast<std::int64_t>(values.values.size())) continue;
    fail(ExitCode::data, "{}: the array '{}' has {} values, expected {}", source_.file.path().string(),
         printable(original_names_.at(values.variable)), values.values.size(), counts[values.variable]);
  }
}

Value Importer::run() {
  find_end();
  if (source_.producer(end_) == nullptr) {
    fail(ExitCode::data, "{}: no node computes the output '{}'", source_.file.path().string(), printable(end_));
  }
  find_needed();
  check_operators();
  note_folded_norms();
  place_input();
  for (const OnnxNode& node : source_.file.nodes()) {
    if (needed_.contains(&node)) add(node);
    if (placed_.contains(end_)) break;  // the network's output does not depend on later nodes
  }
  check_given();
  const auto output = placed_.find(end_);
  if (output == placed_.end()) {
    fail(ExitCode::data, "{}: no node computes the output '{}'", source_.file.path().string(), printable(end_));
  }
  const Value value = arranged(*source_.producer(end_), output->second, stored_order(output->second));
  if (graph_.shape(value).rank() != 2) {
    fail(ExitCode::data, "{}: its output '{}' is not [batch, outputs]", source_.file.path().string(), printable(end_));
  }
  remove_unread(graph_, {&value, 1});
  if (graph_.nodes().size() > max_network_ops)
    fail(ExitCode::data, "{}: the network has more than {} ops", source_.file.path().string(), max_network_ops);
  return value;
}

namespace {

/// Calls Importer::run. If the import fails and the images differ in size from the images of the file, reports a usage
/// error and not damaged data. If the file was exported for several images, the message says how to export it.
Value run_for_images(const Source& source, const NetworkSettings& settings, Importer& importer) {
  const Extents& shape = source.file.input_shape();
  const std::size_t height = source.has_channels_last() ? 1 : 2;
  const auto differs = [&](std::size_t axis, std::int64_t extent) {
    return axis < shape.size() && shape[axis] > 0 && shape[axis] != extent;
  };
  try {
    return importer.run();
  } catch (const Error& error) {
    const bool has_own_size = differs(height, settings.image.height) || differs(height + 1, settings.image.width);
    if (error.code() != ExitCode::data) throw;
    if (importer.batch_of_file() > 1) {
      fail(ExitCode::data, "{} (the file is for batches of {} images: export it for one image or for any number)",
           error.what(), importer.batch_of_file());
    }
    if (!has_own_size) throw;
    fail(ExitCode::usage, "{} (the file is for images of {}x{}: --image-size {})", error.what(), shape[height],
         shape[height + 1], shape[height]);
  }
}

}  // namespace

bool is_onnx_file(const std::string& name) { return name.ends_with(".onnx"); }

MakeNetwork onnx_network(const std::filesystem::path& path, const OnnxOptions& options) {
  const auto source = std::make_shared<const Source>(path, options);
  return [source](const NetworkSettings& settings) {
    std::vector<GivenValues> given;
    std::map<std::string, std::string> names;
    std::vector<std::string> notes;
    Network network = make_network(source->file.path().stem().string(), settings, [&](Graph& graph) {
      Importer importer(*source, settings, graph);
      const Value output = run_for_images(*source, settings, importer);
      given = importer.given();
      names = importer.original_names();
      notes = importer.notes();
      return output;
    });
    network.torch_names = std::move(names);
    network.given = std::make_shared<const std::vector<GivenValues>>(std::move(given));
    network.notes = std::move(notes);
    return network;
  };
}

}  // namespace carillon
