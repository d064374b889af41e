#include "carillon/graph/attributes.h"

#include <algorithm>
#include <cmath>

#include "carillon/core/error.h"

namespace carillon {
namespace {

constexpr std::array<std::string_view, 3> initializer_kinds{"constant", "truncated_normal", "uniform"};

[[noreturn]] void refuse(std::string_view name, std::string_view expected) {
  fail(ExitCode::data, "the attribute '{}' is not {}", name, expected);
}

std::string part(std::string_view name, std::string_view field) { return fmt::format("{}.{}", name, field); }

}  // namespace

const Attributes::Value* Attributes::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found != values_.end() ? &found->second : nullptr;
}

// Returns the names of the attributes of an initializer with the name "weights": "weights" (its kind), "weights.value",
// "weights.number" and "weights.dirac".
void AttributeWriter::operator()(std::string_view name, const Initializer& value) {
  one_of(name, value.kind, {initializer_kinds[0], initializer_kinds[1], initializer_kinds[2]});
  (*this)(part(name, "value"), value.value);
  (*this)(part(name, "number"), value.number);
  (*this)(part(name, "dirac"), value.dirac);
}

void AttributeWriter::operator()(std::string_view name, const std::optional<Initializer>& value) {
  if (value) return (*this)(name, *value);
  attributes_.set(name, std::string("none"));
}

void AttributeWriter::number_or_word(std::string_view name, std::int64_t value, std::string_view word) {
  if (value >= 0) return (*this)(name, value);
  attributes_.set(name, std::string(word));
}

const Attributes::Value* AttributeReader::take(std::string_view name) {
  const Attributes::Value* const value = attributes_.find(name);
  if (value != nullptr) read_.emplace(name);
  return value;
}

void AttributeReader::operator()(std::string_view name, bool& value) {
  const Attributes::Value* const found = take(name);
  if (found == nullptr) return;
  if (const bool* const read = std::get_if<bool>(found)) {
    value = *read;
  } else {
    refuse(name, "true or false");
  }
}

void AttributeReader::operator()(std::string_view name, std::int64_t& value) {
  const Attributes::Value* const found = take(name);
  if (found == nullptr) return;
  const std::int64_t* const read = std::get_if<std::int64_t>(found);
  if (read == nullptr || *read < -max_attribute || *read > max_attribute) refuse(name, "an integer within 2^31");
  value = *read;
}

void AttributeReader::operator()(std::string_view name, int& value) {
  std::int64_t wide = value;
  (*this)(name, wide);
  if (wide == max_attribute) refuse(name, "an integer below 2^31");
  value = static_cast<int>(wide);
}

void AttributeReader::operator()(std::string_view name, float& value) {
  const Attributes::Value* const found = take(name);
  if (found == nullptr) return;
  if (const float* const read = std::get_if<float>(found)) {
    value = *read;
  } else if (const std::int64_t* const integer = std::get_if<std::int64_t>(found)) {
    value = static_cast<float>(*integer);
  } else {
    refuse(name, "a number");
  }
  if (!std::isfinite(value)) refuse(name, "finite");
}

void AttributeReader::operator()(std::string_view name, Initializer& value) {
  value.kind = static_cast<Initializer::Kind>(read_word(name, static_cast<std::size_t>(value.kind), initializer_kinds));
  (*this)(part(name, "value"), value.value);
  (*this)(part(name, "number"), value.number);
  (*this)(part(name, "dirac"), value.dirac);
}

void AttributeReader::operator()(std::string_view name, std::optional<Initializer>& value) {
  const Attributes::Value* const found = attributes_.find(name);
  if (found != nullptr && *found == Attributes::Value(std::string("none"))) {
    read_.emplace(name);
    value = std::nullopt;
    return;
  }
  Initializer initializer = value.value_or(Initializer{});
  (*this)(name, initializer);
  if (found != nullptr || value) value = initializer;
}

void AttributeReader::number_or_word(std::string_view name, std::int64_t& value, std::string_view word) {
  const Attributes::Value* const found = attributes_.find(name);
  if (found != nullptr && *found == Attributes::Value(std::string(word))) {
    read_.emplace(name);
    value = -1;
    return;
  }
  (*this)(name, value);
  if (found != nullptr && value < 0) refuse(name, fmt::format("an integer from 0, or \"{}\"", word));
}

void AttributeReader::operator()(std::string_view name, std::vector<std::int64_t>& values) {
  const Attributes::Value* const found = take(name);
  if (found == nullptr) return;
  const auto* const read = std::get_if<std::vector<std::int64_t>>(found);
  const auto is_in_range = [](std::int64_t value) { return value >= -max_attribute && value <= max_attribute; };
  if (read == nullptr || !std::ranges::all_of(*read, is_in_range)) refuse(name, "a list of integers within 2^31");
  values = *read;
}

void AttributeReader::operator()(std::string_view name, std::vector<float>& values) {
  const Attributes::Value* const found = take(name);
  if (found == nullptr) return;
  if (const auto* const integers = std::get_if<std::vector<std::int64_t>>(found)) {
    values.assign(integers->begin(), integers->end());
  } else if (const auto* const floats = std::get_if<std::vector<float>>(found)) {
    values = *floats;
  } else {
    refuse(name, "a list of numbers");
  }
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
    refuse(name, "a list of finite numbers");
  }
}

void AttributeReader::check_count(std::string_view name, std::size_t count, std::size_t expected) {
  if (count != expected) refuse(name, fmt::format("a list of {} numbers", expected));
}

std::size_t AttributeReader::read_word(std::string_view name, std::size_t present,
                                       std::span<const std::string_view> names) {
  const Attributes::Value* const found = take(name);
  if (found == nullptr) return present;
  const std::string* const word = std::get_if<std::string>(found);
  const auto at = word == nullptr ? names.end() : std::ranges::find(names, std::string_view(*word));
  if (at == names.end()) {
    std::string expected = "one of";
    for (const std::string_view known : names) expected += fmt::format(" {}", known);
    refuse(name, expected);
  }
  return static_cast<std::size_t>(at - names.begin());
}

void AttributeReader::finish() const {
  for (const auto& [name, value] : attributes_.values()) {
    if (!read_.contains(name)) fail(ExitCode::data, "the attribute '{}' is not known", name);
  }
}

}  // namespace carillon
