#include "src/data/convert/picture_list.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <unordered_set>

#include "carillon/core/error.h"
#include "src/core/text.h"
#include "src/core/text_file.h"
#include "src/data/decode/dataset_info.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_bytes = std::size_t{1} << 30;

/// Returns the number in a cell. Returns nullopt if the cell is not a number, or if the number is too large for a
/// float.
std::optional<float> number_in(std::string_view cell) {
  const std::optional<double> number = csv_number(cell);
  if (!number || !std::isfinite(static_cast<float>(*number))) return std::nullopt;
  return static_cast<float>(*number);
}

/// Returns the names in a cell, without repetitions.
std::vector<std::string> names_in(std::string_view cell) {
  std::vector<std::string> names;
  std::unordered_set<std::string_view> seen;
  while (true) {
    const std::size_t cut = std::min(cell.find(';'), cell.size());
    const std::string_view name = csv_trimmed(cell.substr(0, cut));
    if (!name.empty() && seen.insert(name).second) names.emplace_back(name);
    if (cut == cell.size()) return names;
    cell.remove_prefix(cut + 1);
  }
}

/// Returns whether a class or label applies according to the cell. The cell contains 0 or 1, or false or true, as
/// pandas writes them.
std::optional<bool> flag_in(std::string_view cell) {
  if (const std::optional<double> number = csv_number(cell)) {
    return *number == 0.0 || *number == 1.0 ? std::optional(*number == 1.0) : std::nullopt;
  }
  std::string word(csv_trimmed(cell));
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word == "true" || word == "false" ? std::optional(word == "true") : std::nullopt;
}

/// True if the table has one column of flags for each class or label.
bool has_flag_columns(const CsvTable& table) {
  if (table.header.size() < 3) return false;
  return std::ranges::all_of(table.rows, [](const CsvTable::Row& row) {
    return std::all_of(row.cells.begin() + 1, row.cells.end(), [](const std::string& c) { return flag_in(c); });
  });
}

/// Returns class_index if exactly one flag is set in each row, otherwise labels.
TargetKind kind_by_flags(const CsvTable& table) {
  const auto has_one = [](const CsvTable::Row& row) {
    return std::count_if(row.cells.begin() + 1, row.cells.end(), [](const std::string& c) { return *flag_in(c); }) == 1;
  };
  return std::ranges::all_of(table.rows, has_one) ? TargetKind::class_index : TargetKind::labels;
}

/// Checks that the numbers are quantities. Errors: data (the numbers are whole and repeat often, so they may be class
/// numbers).
void check_are_quantities(const CsvTable& table, const std::string& path) {
  constexpr double small_span = 20.0;
  std::set<double> values;
  for (const CsvTable::Row& row : table.rows) {
    for (std::size_t column = 1; column < row.cells.size(); ++column) {
      const double value = csv_number(row.cells[column]).value_or(0.5);
      if (value != std::floor(value)) return;
      values.insert(value);
    }
  }
  const std::size_t rows = table.rows.size();
  const double span = *values.rbegin() - *values.begin();
  if (table.header.size() == 2) {
    if (values.size() == rows || (2 * values.size() > rows && span >= small_span)) return;
    fail(ExitCode::data,
         "{}: the column {} has {} in {} pictures: set --task classification if they are classes, or --task regression "
         "if they are quantities",
         path, printable(table.header[1]), count_text(values.size(), "whole number"), rows);
  }
  if (span > 2.0 || rows <= values.size()) return;
  fail(ExitCode::data,
       "{}: the columns have only the whole numbers {} to {}: write 1 if a class or label applies and 0 if not, or set "
       "--task regression if they are quantities",
       path, *values.begin(), *values.rbegin());
}

/// Returns the kind of target that the cells show. `path`: name of the file in messages.
TargetKind kind_by_cells(const CsvTable& table, const std::string& path) {
  if (has_flag_columns(table)) return kind_by_flags(table);
  if (table.header.size() > 2) {
    check_are_quantities(table, path);
    return TargetKind::numbers;
  }
  const auto is_number = [](const CsvTable::Row& row) { return number_in(row.cells[1]).has_value(); };
  const auto other = std::ranges::find_if_not(table.rows, is_number);
  if (other == table.rows.end()) {
    check_are_quantities(table, path);
    return TargetKind::numbers;
  }
  if (2 * std::ranges::count_if(table.rows, is_number) > std::ssize(table.rows)) {
    fail(ExitCode::data,
         "{}: line {}: '{}' is no number, and most cells of the column are numbers: mend it, or set "
         "--task",
         path, other->line, printable(other->cells[1]));
  }
  const auto has_one_name = [](const CsvTable::Row& row) { return names_in(row.cells[1]).size() == 1; };
  return std::ranges::all_of(table.rows, has_one_name) ? TargetKind::class_index : TargetKind::labels;
}

class TargetLister {
 public:
  TargetLister(const fs::path& path, const CsvTable& table, const std::optional<KnownTargets>& known)
      : path_(path), table_(table), known_(known ? known->classes : KnownClasses{}) {}

  PictureList list(TargetKind target, const fs::path& folder) const {
    PictureList list{.target = target};
    std::set<std::string> seen;
    for (const CsvTable::Row& row : table_.rows) {
      std::error_code error;
      const fs::path picture = folder / row.cells[0];
      if (row.cells[0].empty() || !fs::is_regular_file(picture, error)) {
        fail(ExitCode::data, "{}: there is no picture {} (paths are relative to --input)", at(row),
             printable(picture.string()));
      }
      if (!seen.insert(picture.lexically_normal().string()).second) {
        fail(ExitCode::data, "{}: the picture {} occurs twice", at(row), printable(row.cells[0]));
      }
      list.pictures.push_back({.path = picture, .name = row.cells[0]});
    }
    target == TargetKind::numbers ? add_numbers(list) : add_names(list);
    return list;
  }

 private:
  std::string at(const CsvTable::Row& row) const {
    return fmt::format("{}: line {}", printable(path_.string()), row.line);
  }

  void add_numbers(PictureList& list) const {
    list.classes = column_names();
    if (!known_.names.empty() && list.classes != known_.names) {
      fail(ExitCode::data, "{}: the columns {} are not those of {}, {}", printable(path_.string()),
           printable(fmt::format("{}", fmt::join(list.classes, ", "))), known_.source,
           printable(fmt::format("{}", fmt::join(known_.names, ", "))));
    }
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      for (std::size_t column = 1; column < table_.header.size(); ++column) {
        const std::optional<float> number = number_in(table_.rows[i].cells[column]);
        if (number) {
          list.pictures[i].numbers.push_back(*number);
          const double exact = *csv_number(table_.rows[i].cells[column]);
          if (list.rounded.empty() && exact == std::floor(exact) && exact != *number) {
            list.rounded = fmt::format("line {}: {} becomes {:.0f}", table_.rows[i].line,
                                       csv_trimmed(table_.rows[i].cells[column]), *number);
          }
          continue;
        }
        fail(ExitCode::data, "{}: '{}' in column {} is not a finite number", at(table_.rows[i]),
             printable(table_.rows[i].cells[column]), printable(table_.header[column]));
      }
    }
  }

  /// Returns the names of the columns after the path. Errors: data (two names are equal).
  std::vector<std::string> column_names() const {
    std::vector<std::string> names(table_.header.begin() + 1, table_.header.end());
    for (std::string& name : names) name = csv_trimmed(name);
    if (classes_of(names, {}).size() != names.size()) {
      fail(ExitCode::data, "{}: line 1: two columns have the same name", printable(path_.string()));
    }
    return names;
  }

  void add_names(PictureList& list) const {
    const bool has_columns = has_flag_columns(table_);
    if (table_.header.size() != 2 && !has_columns) {
      fail(ExitCode::data,
           "{}: line 1: the task {} requires two columns: path, {}; or further columns that have only 0 and 1",
           printable(path_.string()), task_name(list.target),
           list.target == TargetKind::labels ? "labels separated by ;" : "class");
    }
    const ClassCheck check(known_);
    std::vector<std::string> found;
    if (has_columns) {
      list.names_are_columns = true;
      found = column_names();
      for (const std::string& name : found) check.require(name, printable(path_.string()) + ": line 1");
    }
    for (const CsvTable::Row& row : table_.rows) {
      if (has_columns) break;
      for (std::string& name : names_of(row, list.target)) {
        check.require(name, at(row));
        found.push_back(std::move(name));
      }
    }
    list.classes = classes_of(std::move(found), known_);
    if (list.classes.empty()) fail(ExitCode::data, "{}: no picture has a label", printable(path_.string()));
    std::map<std::string_view, std::size_t> numbers;
    for (std::size_t i = 0; i < list.classes.size(); ++i) numbers.emplace(list.classes[i], i);
    for (std::size_t i = 0; i < table_.rows.size(); ++i) {
      for (const std::string& name : names_of(table_.rows[i], list.target)) {
        if (list.target == TargetKind::labels) {
          list.pictures[i].labels.push_back(numbers.at(name));
        } else {
          list.pictures[i].class_index = numbers.at(name);
        }
      }
    }
  }

  std::vector<std::string> names_of(const CsvTable::Row& row, TargetKind target) const {
    std::vector<std::string> names;
    if (table_.header.size() == 2) {
      names = names_in(row.cells[1]);
    } else {
      for (std::size_t column = 1; column < row.cells.size(); ++column) {
        if (*flag_in(row.cells[column])) names.emplace_back(csv_trimmed(table_.header[column]));
      }
      if (target == TargetKind::class_index && names.size() != 1) {
        fail(ExitCode::data, "{}: {} of the columns are 1, and a class requires one (or --task multilabel)", at(row),
             names.size());
      }
    }
    if (target == TargetKind::class_index && names.size() != 1) {
      fail(ExitCode::data, "{}: '{}' is not one class (several labels require --task multilabel)", at(row),
           printable(row.cells[1]));
    }
    return names;
  }

  fs::path path_;
  const CsvTable& table_;
  KnownClasses known_;
};

}  // namespace

PictureList list_targets(const fs::path& targets, const fs::path& folder, std::optional<TargetKind> target,
                         const std::optional<KnownTargets>& known) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    fail(ExitCode::no_input, "{}: no such folder; with --targets, --input is the folder of the pictures",
         printable(folder.string()));
  }
  const CsvTable table = read_csv(targets, targets.string(), max_bytes);
  const std::string name = printable(targets.string());
  if (table.header.size() < 2) {
    fail(ExitCode::data, "{}: line 1: requires a column of paths and one of targets, separated by commas", name);
  }
  if (!table.header[0].empty() && fs::is_regular_file(folder / table.header[0], error)) {
    fail(ExitCode::data, "{}: line 1: begins with the picture {}, not with the names of the columns", name,
         printable(table.header[0]));
  }
  if (table.rows.empty()) fail(ExitCode::no_input, "{}: lists no picture", name);
  if (!target) target = known ? known->target : kind_by_cells(table, name);
  if (known && *target != known->target) {
    fail(ExitCode::usage, "{}: the task is {}, but {} has the task {}: choose another directory", name,
         task_name(*target), known->classes.source, task_name(known->target));
  }
  return TargetLister(targets, table, known).list(*target, folder);
}

}  // namespace carillon
