// Attributes: the settings of an op as named values, so that a network can be stored and read as data.
//
// A params struct lists its fields once: void visit(Fields& fields) { fields("units", units); ... }. attributes_of
// writes these fields, and params_of reads them. An absent attribute keeps the default of its field. The writer omits
// values that equal the defaults.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "carillon/graph/parameters.h"

namespace carillon {

class Attributes {
 public:
  using Value = std::variant<bool, std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>>;

  /// Adds the attribute `name`, or replaces its value.
  void set(std::string_view name, Value value) { values_.insert_or_assign(std::string(name), std::move(value)); }
  /// Returns the attribute, or null if no attribute has this name.
  const Value* find(std::string_view name) const;
  /// Returns all attributes, in alphabetical order of their names.
  const std::map<std::string, Value, std::less<>>& values() const { return values_; }
  bool operator==(const Attributes&) const = default;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

/// Largest magnitude of an integer attribute. The limit ensures that products of two extents fit into 64 bits.
inline constexpr std::int64_t max_attribute = std::int64_t{1} << 31;

/// Writes the fields of a params struct.
class AttributeWriter {
 public:
  explicit AttributeWriter(Attributes& attributes) : attributes_(attributes) {}

  void operator()(std::string_view name, bool value) { attributes_.set(name, value); }
  void operator()(std::string_view name, int value) { attributes_.set(name, std::int64_t{value}); }
  void operator()(std::string_view name, std::int64_t value) { attributes_.set(name, value); }
  void operator()(std::string_view name, float value) { attributes_.set(name, value); }
  void operator()(std::string_view name, const Initializer& value);
  void operator()(std::string_view name, const std::optional<Initializer>& value);
  void operator()(std::string_view name, const std::vector<std::int64_t>& values) { attributes_.set(name, values); }
  void operator()(std::string_view name, const std::vector<float>& values) { attributes_.set(name, values); }
  template <std::size_t count>
  void operator()(std::string_view name, const std::array<float, count>& values) {
    attributes_.set(name, std::vector<float>(values.begin(), values.end()));
  }
  /// Writes the name of an enumerator: the element of `names` at the position that equals the enumerator's value.
  template <typename Enum>
  void one_of(std::string_view name, Enum value, std::initializer_list<std::string_view> names) {
    attributes_.set(name, std::string(*(names.begin() + static_cast<std::ptrdiff_t>(value))));
  }
  /// Writes the number, or `word` if the number is negative.
  void number_or_word(std::string_view name, std::int64_t value, std::string_view word);

 private:
  Attributes& attributes_;
};

/// Reads the fields of a params struct. Each function reads the attribute that the AttributeWriter function of the same
/// name and type writes. If the attribute is absent, the field keeps its value. Errors: data (a value has another type
/// or is out of range).
class AttributeReader {
 public:
  explicit AttributeReader(const Attributes& attributes) : attributes_(attributes) {}

  void operator()(std::string_view name, bool& value);
  void operator()(std::string_view name, int& value);
  void operator()(std::string_view name, std::int64_t& value);
  void operator()(std::string_view name, float& value);
  void operator()(std::string_view name, Initializer& value);
  void operator()(std::string_view name, std::optional<Initializer>& value);
  void operator()(std::string_view name, std::vector<std::int64_t>& values);
  void operator()(std::string_view name, std::vector<float>& values);
  template <std::size_t count>
  void operator()(std::string_view name, std::array<float, count>& values) {
    std::vector<float> read(values.begin(), values.end());
    (*this)(name, read);
    check_count(name, read.size(), count);
    std::copy_n(read.begin(), count, values.begin());
  }
  template <typename Enum>
  void one_of(std::string_view name, Enum& value, std::initializer_list<std::string_view> names) {
    value = static_cast<Enum>(read_word(name, static_cast<std::size_t>(value), {names.begin(), names.size()}));
  }
  void number_or_word(std::string_view name, std::int64_t& value, std::string_view word);
  /// Call it after all fields are read. Errors: data (there is an attribute that no field has read).
  void finish() const;

 private:
  const Attributes::Value* take(std::string_view name);
  /// Checks the length of a list. `count`: number of elements of the list in the attribute. Errors: data (`count`
  /// differs from `expected`).
  static void check_count(std::string_view name, std::size_t count, std::size_t expected);
  std::size_t read_word(std::string_view name, std::size_t present, std::span<const std::string_view> names);

  const Attributes& attributes_;
  std::set<std::string, std::less<>> read_;  ///< names of the attributes that were read
};

template <typename Params>
Attributes attributes_of(Params params) {
  Attributes all, defaults, different;
  AttributeWriter writer(all), default_writer(defaults);
  params.visit(writer);
  Params{}.visit(default_writer);
  for (const auto& [name, value] : all.values()) {
    const Attributes::Value* const usual = defaults.find(name);
    if (usual == nullptr || *usual != value) different.set(name, value);
  }
  return different;
}

/// Reads a params struct from its attributes. Errors: data (an attribute is unknown, or a value has another type or is
/// out of range).
template <typename Params>
Params params_of(const Attributes& attributes) {
  Params params;
  AttributeReader reader(attributes);
  params.visit(reader);
  reader.finish();
  return params;
}

}  // namespace carillon
