#include "src/onnx/onnx_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/bf16.h"
#include "src/core/text.h"

namespace carillon {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX's raw data is little-endian");

constexpr std::size_t max_file_bytes = (std::size_t{1} << 31) - 1;  // protobuf's limit
constexpr std::int64_t max_elements = std::int64_t{1}
                                      << 31;  // limit for all constants; an element has 4 or 8 bytes in memory
constexpr int max_nodes = 200'000;
constexpr std::int64_t least_operator_set = 9;

/// The number of elements; nullopt if an extent is negative or there are too many elements.
std::optional<std::int64_t> count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    // An extent of 0 counts as 1: a product of 0 would hide that the other extents are too large.
    const std::int64_t factor = std::max<std::int64_t>(extent, 1);
    if (extent < 0 || __builtin_mul_overflow(count, factor, &count) || count > max_elements) return std::nullopt;
  }
  return std::ranges::find(shape, 0) == shape.end() ? count : 0;
}

float half_to_float(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float magnitude = exponent == 0    ? std::ldexp(static_cast<float>(fraction), -24)
                          : exponent == 31 ? (fraction == 0 ? std::numeric_limits<float>::infinity()
                                                            : std::numeric_limits<float>::quiet_NaN())
                                           : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return half >> 15 != 0 ? -magnitude : magnitude;
}

/// Converts the elements of `bytes` from type From to type To with `convert`.
template <typename From, typename To, typename Convert>
std::vector<To> converted(std::string_view bytes, Convert convert) {
  std::vector<To> values(bytes.size() / sizeof(From));
  for (std::size_t i = 0; i < values.size(); ++i) {
    From element;
    std::memcpy(&element, bytes.data() + i * sizeof(From), sizeof(From));
    values[i] = convert(element);
  }
  return values;
}

template <typename To, typename Field>
std::vector<To> listed(const Field& field) {
  std::vector<To> values;
  values.reserve(static_cast<std::size_t>(field.size()));
  for (const auto value : field) values.push_back(static_cast<To>(value));
  return values;
}

std::size_t element_bytes(int type) {
  switch (type) {
    case onnx::Tensor::FLOAT:
    case onnx::Tensor::INT32:
      return 4;
    case onnx::Tensor::INT64:
    case onnx::Tensor::DOUBLE:
      return 8;
    case onnx::Tensor::FLOAT16:
    case onnx::Tensor::BFLOAT16:
      return 2;
    case onnx::Tensor::UINT8:
    case onnx::Tensor::INT8:
    case onnx::Tensor::BOOL:
      return 1;
    default:
      return 0;
  }
}

/// Sets the values of `array` from raw bytes.
void set_from_bytes(int type, std::string_view bytes, OnnxArray& array) {
  const auto integer = [](auto value) { return static_cast<std::int64_t>(value); };
  const auto number = [](auto value) { return static_cast<float>(value); };
  switch (type) {
    case onnx::Tensor::FLOAT:
      array.floats = converted<float, float>(bytes, number);
      break;
    case onnx::Tensor::DOUBLE:
      array.floats = converted<double, float>(bytes, number);
      break;
    case onnx::Tensor::FLOAT16:
      array.floats = converted<std::uint16_t, float>(bytes, half_to_float);
      break;
    case onnx::Tensor::BFLOAT16:
      array.floats = converted<std::uint16_t, float>(
          bytes, [](std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); });
      break;
    case onnx::Tensor::INT64:
      array.integers = converted<std::int64_t, std::int64_t>(bytes, integer);
      break;
    case onnx::Tensor::INT32:
      array.integers = converted<std::int32_t, std::int64_t>(bytes, integer);
      break;
    case onnx::Tensor::INT8:
      array.integers = converted<std::int8_t, std::int64_t>(bytes, integer);
      break;
    default:
      array.integers = converted<std::uint8_t, std::int64_t>(bytes, integer);
  }
}

/// Sets the values of `array` from the typed lists of the tensor.
void set_from_lists(const onnx::Tensor& tensor, OnnxArray& array) {
  switch (tensor.data_type()) {
    case onnx::Tensor::FLOAT:
      array.floats = listed<float>(tensor.float_data());
      break;
    case onnx::Tensor::DOUBLE:
      array.floats = listed<float>(tensor.double_data());
      break;
    case onnx::Tensor::FLOAT16:
    case onnx::Tensor::BFLOAT16:
      for (const std::int32_t bits : tensor.int32_data()) {
        const auto half = static_cast<std::uint16_t>(bits);
        array.floats.push_back(tensor.data_type() == onnx::Tensor::FLOAT16
                                   ? half_to_float(half)
                                   : std::bit_cast<float>(std::uint32_t{half} << 16));
      }
      break;
    case onnx::Tensor::INT64:
      array.integers = listed<std::int64_t>(tensor.int64_data());
      break;
    default:
      array.integers = listed<std::int64_t>(tensor.int32_data());
  }
}

std::string entry_of(const onnx::Tensor& tensor, std::string_view key) {
  for (const onnx::StringEntry& entry : tensor.external_data()) {
    if (entry.key() == key) return entry.value();
  }
  return {};
}

}  // namespace

std::int64_t OnnxArray::element_count() const { return count_of(shape).value_or(0); }

std::string OnnxNode::name() const {
  if (!node_->name().empty()) return node_->name();
  return node_->output_size() > 0 ? node_->output(0) : std::string();
}

const onnx::Attribute* OnnxNode::find(std::string_view attribute) const {
  for (const onnx::Attribute& one : node_->attribute()) {
    if (one.name() == attribute) return &one;
  }
  return nullptr;
}

const onnx::Attribute* OnnxNode::find(std::string_view attribute, onnx::Attribute::Type type) const {
  const onnx::Attribute* const found = find(attribute);
  if (found != nullptr && found->type() != type) {
    fail(ExitCode::data, "the attribute {} of the node '{}' has another type than ONNX's", attribute,
         printable(name()));
  }
  return found;
}

std::int64_t OnnxNode::integer(std::string_view attribute, std::int64_t other) const {
  const onnx::Attribute* const found = find(attribute, onnx::Attribute::INT);
  return found == nullptr ? other : found->i();
}

float OnnxNode::number(std::string_view attribute, float other) const {
  const onnx::Attribute* const found = find(attribute, onnx::Attribute::FLOAT);
  return found == nullptr ? other : found->f();
}

std::string OnnxNode::text(std::string_view attribute, const std::string& other) const {
  const onnx::Attribute* const found = find(attribute, onnx::Attribute::STRING);
  return found == nullptr ? other : found->s();
}

std::vector<std::int64_t> OnnxNode::integers(std::string_view attribute, std::vector<std::int64_t> other) const {
  const onnx::Attribute* const found = find(attribute, onnx::Attribute::INTS);
  return found == nullptr ? std::move(other) : listed<std::int64_t>(found->ints());
}

const std::vector<float> OnnxNode::numbers(std::string_view attribute) const {
  const onnx::Attribute* const found = find(attribute, onnx::Attribute::FLOATS);
  return found == nullptr ? std::vector<float>{} : listed<float>(found->floats());
}

const onnx::Tensor* OnnxNode::tensor(std::string_view attribute) const {
  const onnx::Attribute* const found = find(attribute, onnx::Attribute::TENSOR);
  return found == nullptr ? nullptr : &found->t();
}

void OnnxFile::refuse(const std::string& what) const { fail(ExitCode::data, "{}: {}", path_.string(), what); }

std::string OnnxFile::external_bytes(const onnx::Tensor& tensor, const std::string& name, std::size_t bytes) const {
  const std::filesystem::path location = entry_of(tensor, "location");
  const bool is_in_folder = !location.empty() && !location.is_absolute() && is_line(location.string()) &&
                            std::ranges::find(location, std::filesystem::path("..")) == location.end();
  if (!is_in_folder) refuse(fmt::format("the values of '{}' are in a file outside its folder", printable(name)));
  const std::filesystem::path file = path_.parent_path() / location;
  const std::optional<double> offset = number_of(entry_of(tensor, "offset").empty() ? "0" : entry_of(tensor, "offset"));
  constexpr double most = 1e15;
  if (!offset || !(*offset >= 0.0 && *offset <= most)) {
    refuse(fmt::format("the values of '{}' have no valid place in {}", printable(name), file.string()));
  }
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path_).parent_path());
  const std::filesystem::path relative =
      std::filesystem::weakly_canonical(std::filesystem::absolute(file), error).lexically_relative(folder);
  if (error || relative.empty() || *relative.begin() == "..") {
    refuse(fmt::format("the values of '{}' are in a file outside its folder", printable(name)));
  }
  const Descriptor descriptor = open_plain_file(file, file.string());
  const std::uint64_t size = stamp_of(descriptor, file.string()).bytes;
  const auto begin = static_cast<std::uint64_t>(*offset);
  if (begin > size || bytes > size - begin) {
    refuse(fmt::format("the values of '{}' are missing in {}, which ends before them", printable(name), file.string()));
  }
  std::string values(bytes, '\0');
  std::size_t count = 0;
  const int failure = ::lseek(descriptor.get(), static_cast<off_t>(begin), SEEK_SET) < 0
                          ? errno
                          : read_all(descriptor.get(), std::as_writable_bytes(std::span(values)), count);
  if (failure != 0 || count != bytes) fail(ExitCode::io, "{}: cannot read: {}", file.string(), errno_text(failure));
  return values;
}

bool OnnxFile::is_of_pytorch() const { return model_->producer_name() == "pytorch"; }

OnnxConstant OnnxFile::read(const onnx::Tensor& tensor, const std::string& name) const {
  auto array = std::make_shared<OnnxArray>();
  array->shape = listed<std::int64_t>(tensor.dims());
  array->name = name;
  const std::optional<std::int64_t> count = count_of(array->shape);
  const std::size_t size = element_bytes(tensor.data_type());
  if (!count || array->shape.size() > 8) refuse(fmt::format("the array '{}' has an invalid shape", printable(name)));
  if (size == 0) {
    refuse(fmt::format("the array '{}' has elements of a type that Carillon does not read (ONNX's number {})",
                       printable(name), tensor.data_type()));
  }
  const std::size_t bytes = size * static_cast<std::size_t>(*count);
  array->has_floats = tensor.data_type() == onnx::Tensor::FLOAT || tensor.data_type() == onnx::Tensor::DOUBLE ||
                      tensor.data_type() == onnx::Tensor::FLOAT16 || tensor.data_type() == onnx::Tensor::BFLOAT16;
  if (tensor.data_location() == onnx::Tensor::EXTERNAL) {
    set_from_bytes(tensor.data_type(), external_bytes(tensor, name, bytes), *array);
  } else if (!tensor.raw_data().empty()) {
    if (tensor.raw_data().size() != bytes) {
      refuse(fmt::format("the array '{}' has {} bytes of values, expected {}", printable(name),
                         tensor.raw_data().size(), bytes));
    }
    set_from_bytes(tensor.data_type(), tensor.raw_data(), *array);
  } else {
    set_from_lists(tensor, *array);
  }
  const std::size_t found = array->has_floats ? array->floats.size() : array->integers.size();
  if (found != static_cast<std::size_t>(*count)) {
    refuse(fmt::format("the array '{}' has {} values, expected {}", printable(name), found, *count));
  }
  return array;
}

OnnxFile::OnnxFile(std::filesystem::path path) : path_(std::move(path)), model_(std::make_shared<onnx::Model>()) {
  {
    const std::string bytes = read_plain_file(path_, path_.string(), max_file_bytes);
    google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                  static_cast<int>(bytes.size()));
    stream.SetTotalBytesLimit(std::numeric_limits<int>::max());
    const bool is_model = model_->ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
    if (!is_model || model_->graph().node().empty()) refuse("is not an ONNX model");
  }
  for (const onnx::OperatorSet& set : model_->opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") operator_set_ = set.version();
  }
  if (operator_set_ < least_operator_set) {
    refuse(fmt::format("has the operator set {}; export it with {} or a later one (opset_version=17)", operator_set_,
                       least_operator_set));
  }
  const onnx::Graph& graph = model_->graph();
  if (graph.node_size() > max_nodes) refuse(fmt::format("has more than {} nodes", max_nodes));
  for (const onnx::Node& node : graph.node()) {
    if (node.output_size() == 0) refuse(fmt::format("the node '{}' has no output", printable(node.name())));
    nodes_.emplace_back(node);
  }
  std::int64_t elements = 0;
  for (onnx::Tensor& tensor : *model_->mutable_graph()->mutable_initializer()) {
    const OnnxConstant constant = read(tensor, tensor.name());
    elements += constant->element_count();
    if (elements > max_elements) refuse("has more than 2^31 values");
    if (tensor.name().empty()) refuse("has an array without a name");
    if (!std::ranges::all_of(constant->floats, [](float value) { return std::isfinite(value); })) {
      refuse(fmt::format("the array '{}' has a value that is not finite", printable(tensor.name())));
    }
    if (!constants_.emplace(tensor.name(), constant).second) {
      refuse(fmt::format("has two arrays named '{}'", printable(tensor.name())));
    }
    onnx::Tensor().Swap(&tensor);  // frees the memory: `constants_` now has the values
  }
  std::vector<const onnx::ValueInfo*> inputs;
  for (const onnx::ValueInfo& input : graph.input()) {
    if (!constants_.contains(input.name())) inputs.push_back(&input);
  }
  if (inputs.size() != 1)
    refuse(fmt::format("has {}; networks of pictures have one", count_text(inputs.size(), "input")));
  if (graph.output_size() == 0) refuse("has no output");
  input_ = inputs.front()->name();
  output_ = graph.output(0).name();
  for (const onnx::TensorShape::Dimension& extent : inputs.front()->type().tensor_type().shape().dim()) {
    input_shape_.push_back(extent.has_dim_value() && extent.dim_value() > 0 ? extent.dim_value() : -1);
  }
}

}  // namespace carillon
