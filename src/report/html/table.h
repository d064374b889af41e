// HTML tables of a page.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace carillon {

// All texts are HTML: html_text() makes other texts safe.

/// A table in a box that scrolls. `kind`: CSS classes. `label`: for screen readers. `rows`: a heading row and a body.
std::string table_box(std::string_view kind, std::string_view label, const std::string& rows);

/// A heading row. A title that begins with # is that of a column of numbers.
std::string table_heading(std::initializer_list<std::string_view> titles);

/// A cell with a number.
std::string number_cell(std::string_view text);
std::string number_cell(std::int64_t count);
/// With 4 decimals. No number, or NaN: a dash.
std::string number_cell(std::optional<double> number);
/// A cell with the name of a class, label or number.
std::string name_cell(std::string_view name);

/// The name of an output as HTML; its index if it has no name.
std::string html_name(std::span<const std::string> names, std::size_t i);

}  // namespace carillon
