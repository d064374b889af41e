#include "src/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>

#include "carillon/core/file.h"
#include "src/images/picture.h"
#include "src/report/html_charts.h"
#include "src/report/html_page.h"
#include "src/report/html_text.h"

namespace carillon {
namespace {

struct OfClass {
  std::int64_t support = 0, predicted = 0, correct = 0;
  std::int64_t mistakes() const { return support - correct; }
};

struct ConfusedPair {
  std::size_t truth = 0, predicted = 0;
  std::int64_t count = 0;
};

/// The counts of a report. No table has a cell per pair of classes, because there may be many classes.
struct Counts {
  std::vector<OfClass> classes;
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> cells;  ///< (true, predicted) -> records
  std::vector<ConfusedPair> pairs;                                    ///< mistakes, the most frequent first

  explicit Counts(const Predictions& predictions) : classes(predictions.class_count) {
    for (const Prediction& sample : predictions.samples) {
      const auto truth = static_cast<std::size_t>(sample.label),
                 predicted = static_cast<std::size_t>(sample.predicted());
      classes[truth].support += 1;
      classes[predicted].predicted += 1;
      classes[truth].correct += truth == predicted ? 1 : 0;
      cells[{truth, predicted}] += 1;
    }
    for (const auto& [cell, count] : cells) {
      if (cell.first != cell.second) pairs.push_back({cell.first, cell.second, count});
    }
    std::ranges::stable_sort(pairs, std::ranges::greater(), &ConfusedPair::count);
  }

  std::int64_t at(std::size_t truth, std::size_t predicted) const {
    const auto found = cells.find({truth, predicted});
    return found == cells.end() ? 0 : found->second;
  }
};

std::string ratio_text(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? fmt::format("{:.4f}", static_cast<double>(part) / static_cast<double>(whole)) : "–";
}

std::string percent_text(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

/// A table in a box that scrolls. `kind`: classes of the table.
std::string box(std::string_view kind, std::string_view label, const std::string& rows) {
  return fmt::format(
      "<div class=\"box{}\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"{}\">{}</table></div>\n",
      kind.starts_with("matrix") ? " whole" : "", label, kind, rows);
}

/// A heading row. A title that begins with # is that of a column of numbers.
std::string heading(std::initializer_list<std::string_view> titles) {
  std::string row = "<thead><tr>";
  for (std::string_view title : titles) {
    const bool is_number = title.starts_with('#');
    if (is_number) title.remove_prefix(1);
    row += fmt::format("<th scope=\"col\"{}>{}</th>", is_number ? " class=\"n\"" : "", title);
  }
  return row + "</tr></thead>";
}

class Page {
 public:
  explicit Page(const HtmlReport& report) : report_(report), counts_(report.predictions) {}

  std::string html() const;

 private:
  std::string name_of(std::size_t label) const {
    return label < report_.class_names.size() ? html_text(report_.class_names[label], 120) : std::to_string(label);
  }
  std::string name_cell(std::size_t label) const {
    return fmt::format("<td class=\"name\"><bdi>{}</bdi></td>", name_of(label));
  }
  std::string header() const;
  std::string scores() const;
  std::string curves() const;
  std::string evaluations() const;
  std::vector<std::size_t> matrix_classes() const;
  std::string matrix_row(std::size_t truth, std::span<const std::size_t> shown) const;
  std::string matrix() const;
  std::string pairs() const;
  std::string classes() const;
  std::string calibration() const;
  std::string pictures() const;
  std::string run() const;

  const HtmlReport& report_;
  Counts counts_;
};

std::string Page::header() const {
  return fmt::format(
      "<header><h1>Evaluation of {}</h1>\n<p class=\"sub\">{}: {} at step {}, {} records, {} classes</p>\n"
      "<nav aria-label=\"Sections\"><a href=\"#scores\">Scores</a><a href=\"#curves\">Learning curves</a>"
      "<a href=\"#confusion\">Confusion</a><a href=\"#classes\">Classes</a><a href=\"#calibration\">Calibration</a>"
      "<a href=\"#pictures\">Pictures</a><a href=\"#run\">Run</a></nav></header>\n",
      html_text(report_.model), html_text(report_.checkpoint), html_text(report_.values), report_.step,
      report_.predictions.samples.size(), counts_.classes.size());
}

struct ScoreText {
  std::string_view name, title, meaning;
};
constexpr ScoreText score_texts[] = {
    {"accuracy", "Accuracy", "correct predictions"},
    {"top_5", "Top-5 accuracy", "true class among the five most probable"},
    {"balanced_accuracy", "Balanced accuracy", "mean recall of the classes"},
    {"macro_f1", "Macro F1", "mean F1 of the classes"},
    {"cross_entropy", "Cross-entropy", "mean loss; lower is better"},
    {"calibration_error", "Calibration error", "mean gap of confidence and accuracy; lower is better"}};

std::string Page::scores() const {
  std::string tiles;
  for (const ScoreText& text : score_texts) {
    const auto score = std::ranges::find(report_.scores, text.name, &Score::name);
    if (score == report_.scores.end()) continue;
    const std::string meaning = score->ratio ? fmt::format("{} of {} records", score->ratio->part, score->ratio->whole)
                                             : std::string(text.meaning);
    tiles += fmt::format("<div><dt>{}</dt><dd class=\"value\">{:.4f}</dd><dd>{}</dd></div>\n", text.title, score->value,
                         meaning);
  }
  return fmt::format("<section id=\"scores\"><h2>Scores</h2>\n<dl class=\"scores\">\n{}</dl></section>\n", tiles);
}

std::string Page::evaluations() const {
  constexpr std::size_t columns = LearningCurves::columns.size();
  std::array<bool, columns> has{};
  for (const LearningCurves::Evaluation& evaluation : report_.curves.evaluations) {
    for (std::size_t i = 0; i < columns; ++i) has[i] = has[i] || evaluation.scores[i].has_value();
  }
  std::string rows = "<thead><tr><th scope=\"col\" class=\"n\">Step</th>";
  for (std::size_t i = 0; i < columns; ++i) {
    if (has[i]) rows += fmt::format("<th scope=\"col\" class=\"n\">{}</th>", LearningCurves::columns[i].heading);
  }
  rows += "</tr></thead><tbody>\n";
  for (const LearningCurves::Evaluation& evaluation : report_.curves.evaluations) {
    rows += fmt::format("<tr><td class=\"n\">{}</td>", evaluation.step);
    for (std::size_t i = 0; i < columns; ++i) {
      if (!has[i]) continue;
      const std::optional<double>& score = evaluation.scores[i];
      rows += fmt::format("<td class=\"n\">{}</td>", score ? fmt::format("{:.4f}", *score) : "–");
    }
    rows += "</tr>\n";
  }
  return fmt::format("<details><summary>All {} evaluations</summary>{}</details>\n", report_.curves.evaluations.size(),
                     box("sort", "Evaluations", rows + "</tbody>"));
}

std::string Page::curves() const {
  const LearningCurves& curves = report_.curves;
  std::string content = "<p class=\"note\">The folder of the checkpoint has no metrics.jsonl with a course.</p>\n";
  if (!curves.is_empty()) {
    const auto step = static_cast<double>(report_.step);
    content = fmt::format(
        "<p class=\"note\">The dashed line is step {}, which this page evaluates. The training loss includes the "
        "label smoothing and the augmentation of the training.</p>\n<div class=\"charts\">\n{}{}{}</div>\n",
        report_.step,
        line_chart({.title = "Loss",
                    .lines = {{"training", curves.loss}, {"evaluation", curves.of_column(1), true}},
                    .marked_step = step,
                    .starts_at_zero = true}),
        line_chart({.title = "Accuracy", .lines = {{"evaluation", curves.of_column(0), true}}, .marked_step = step}),
        line_chart({.title = "Learning rate",
                    .lines = {{"training", curves.learning_rate}},
                    .marked_step = step,
                    .starts_at_zero = true}));
    if (!curves.evaluations.empty()) content += evaluations();
  }
  return fmt::format("<section id=\"curves\"><h2>Learning curves</h2>\n{}</section>\n", content);
}

/// Ascending.
std::vector<std::size_t> Page::matrix_classes() const {
  std::vector<std::size_t> shown(counts_.classes.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (shown.size() <= max_matrix_classes) return shown;
  std::ranges::stable_sort(shown, std::ranges::greater(),
                           [&](std::size_t label) { return counts_.classes[label].mistakes(); });
  shown.resize(max_matrix_classes);
  std::ranges::sort(shown);
  return shown;
}

std::string Page::matrix_row(std::size_t truth, std::span<const std::size_t> shown) const {
  const OfClass& of_class = counts_.classes[truth];
  std::string row = fmt::format("<tr data-mistakes=\"{}\"><th scope=\"row\" title=\"{}\"><bdi>{}</bdi></th>",
                                of_class.mistakes(), name_of(truth), name_of(truth));
  std::int64_t others = of_class.support;
  for (const std::size_t predicted : shown) {
    const std::int64_t count = counts_.at(truth, predicted);
    others -= count;
    if (count == 0) {
      row += "<td class=\"z\">0</td>";
      continue;
    }
    const double share = static_cast<double>(count) / static_cast<double>(of_class.support);
    row += fmt::format("<td class=\"{}\" style=\"--s:{:.2f}\">{}</td>", truth == predicted ? 't' : 'f',
                       0.1 + 0.45 * share, count);
  }
  if (shown.size() < counts_.classes.size()) row += fmt::format("<td class=\"o\">{}</td>", others);
  return row + "</tr>\n";
}

std::string Page::matrix() const {
  const std::vector<std::size_t> shown = matrix_classes();
  const bool has_others = shown.size() < counts_.classes.size();
  std::string rows = "<thead><tr><td>true ↓<br/>predicted →</td>";
  std::size_t longest = 0;
  for (const std::size_t label : shown) {
    const std::string name = name_of(label);
    longest = std::max(longest, name.size());
    rows += fmt::format("<th scope=\"col\" title=\"{}\"><span><bdi>{}</bdi></span></th>", name, name);
  }
  if (has_others) rows += "<th scope=\"col\" class=\"o\"><span>other classes</span></th>";
  rows += "</tr></thead><tbody>\n";
  for (const std::size_t truth : shown) rows += matrix_row(truth, shown);
  const std::string of_many = has_others ? fmt::format(" These are the {} of {} classes with the most mistakes.",
                                                       shown.size(), counts_.classes.size())
                                         : "";
  constexpr std::size_t short_name = 4;
  const char* const kind = longest > short_name || has_others ? "matrix long" : "matrix";
  return fmt::format(
             "<section id=\"confusion\"><h2>Confusion matrix</h2>\n<p class=\"note\">Number of records by true and "
             "predicted class. The shade is the share of the true class: blue and bold on the diagonal, orange for "
             "mistakes.{}</p>\n<div class=\"beside\"><div class=\"part\">",
             of_many) +
         box(kind, "Confusion matrix", rows + "</tbody>") + "</div>\n<div class=\"part\">" + pairs() +
         "</div></div></section>\n";
}

std::string Page::pairs() const {
  constexpr std::size_t most = 50;
  if (counts_.pairs.empty()) return "<p>There are no mistakes.</p>\n";
  const std::span shown(counts_.pairs.data(), std::min(most, counts_.pairs.size()));
  std::string rows = heading({"True class", "Predicted as", "#Records", "#Share of the class"}) + "<tbody>\n";
  for (const ConfusedPair& pair : shown) {
    const double share = static_cast<double>(pair.count) / static_cast<double>(counts_.classes[pair.truth].support);
    rows += fmt::format("<tr>{}{}<td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n", name_cell(pair.truth),
                        name_cell(pair.predicted), pair.count, percent_text(share));
  }
  const std::string of_many =
      shown.size() < counts_.pairs.size()
          ? fmt::format("<p class=\"note\">{} of {} pairs.</p>\n", shown.size(), counts_.pairs.size())
          : "";
  return "<h3>Most confused pairs</h3>\n" + of_many + box("sort", "Most confused pairs", rows + "</tbody>");
}

std::string Page::classes() const {
  std::string rows =
      heading({"#No.", "Class", "#Records", "#Predicted", "#Correct", "#Precision", "#Recall", "#F1"}) + "<tbody>\n";
  for (std::size_t label = 0; label < counts_.classes.size(); ++label) {
    const OfClass& one = counts_.classes[label];
    rows += fmt::format("<tr><td class=\"n\">{}</td>{}", label, name_cell(label));
    for (const std::int64_t count : {one.support, one.predicted, one.correct}) {
      rows += fmt::format("<td class=\"n\">{}</td>", count);
    }
    for (const std::string& text : {ratio_text(one.correct, one.predicted), ratio_text(one.correct, one.support),
                                    ratio_text(2 * one.correct, one.support + one.predicted)}) {
      rows += fmt::format("<td class=\"n\">{}</td>", text);
    }
    rows += "</tr>\n";
  }
  return fmt::format(
      "<section id=\"classes\"><h2>Classes</h2>\n<p class=\"note\">Precision: share of the predictions of a class "
      "that are correct. Recall: share of its records that are found. F1: their harmonic mean.</p>\n{}</section>\n",
      box("sort", "Classes", rows + "</tbody>"));
}

std::string Page::calibration() const {
  std::string rows = heading({"Confidence", "#Records", "#Correct", "#Accuracy", "#Mean confidence"}) + "<tbody>\n";
  constexpr auto bins = static_cast<double>(Calibration::bin_count);
  for (std::size_t i = 0; i < Calibration::bin_count; ++i) {
    const Calibration::Bin& bin = report_.calibration.bins()[i];
    const auto mean = [&](double value) { return bin.count > 0 ? fmt::format("{:.4f}", value) : "–"; };
    rows += fmt::format(
        "<tr><td>{:.3f} – {:.3f}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td></tr>\n",
        static_cast<double>(i) / bins, static_cast<double>(i + 1) / bins, bin.count, bin.correct, mean(bin.accuracy()),
        mean(bin.mean_confidence()));
  }
  return fmt::format(
      "<section id=\"calibration\"><h2>Calibration</h2>\n<p class=\"note\">The confidence of a prediction is its "
      "probability. Of well calibrated predictions with confidence 0.8, 80 % are correct: the bars end at the dashed "
      "line. Bars below the line mean too much confidence.</p>\n{}<details><summary>Bins as a table</summary>{}"
      "</details></section>\n",
      calibration_chart(report_.calibration), box("", "Calibration", rows + "</tbody>"));
}

std::string gallery(const std::vector<ShownPrediction>& shown) {
  constexpr int quality = 85;
  std::string figures;
  for (const ShownPrediction& one : shown) {
    const std::string truth = html_text(one.true_class, 120), predicted = html_text(one.predicted, 120);
    figures += fmt::format(
        "<figure><img src=\"data:image/jpeg;base64,{}\" width=\"{}\" height=\"{}\" alt=\"{}\"/><figcaption>"
        "<span class=\"line\"><i>true</i> <bdi>{}</bdi></span><span class=\"line\"><i>predicted</i> "
        "<bdi>{}</bdi></span>"
        "<span class=\"line {}\">{} {}</span><small>{}</small></figcaption></figure>\n",
        base64(encode_jpeg(one.picture, quality)), one.picture.width, one.picture.height, truth, truth, predicted,
        one.is_mistake ? "wrong" : "right",
        one.is_mistake ? "✗<span class=\"hidden\"> wrong</span>" : "✓<span class=\"hidden\"> right</span>",
        percent_text(one.probability), html_text(one.origin, 80));
  }
  return fmt::format("<div class=\"pictures\">\n{}</div>\n", figures);
}

std::string Page::pictures() const {
  return fmt::format(
      "<section id=\"pictures\"><h2>Pictures</h2>\n<p class=\"note\">As the network gets them, with the probability of "
      "the "
      "predicted class. ✓ right, ✗ wrong.</p>\n<h3>Most certain mistakes</h3>\n{}"
      "<h3>Least certain predictions</h3>\n{}</section>\n",
      report_.mistakes.empty() ? "<p>There are no mistakes.</p>\n" : gallery(report_.mistakes),
      gallery(report_.uncertain));
}

std::string Page::run() const {
  const auto row = [](std::string_view name, std::string_view value) {
    constexpr std::size_t most = 400;
    return fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html_text(name), html_text(value, most));
  };
  std::string records;
  for (const std::string& pattern : report_.records) records += (records.empty() ? "" : " ") + pattern;
  const std::string facts = row("Checkpoint", report_.checkpoint) + row("Model", report_.model) +
                            row("Step", std::to_string(report_.step)) + row("Evaluated values", report_.values) +
                            row("Evaluated records", records) + row("Program", report_.version);
  std::string options;
  for (const auto& [name, value] : report_.options) options += row(name, value);
  std::string section =
      fmt::format("<section id=\"run\"><h2>Run</h2>\n{}", box("facts", "Run", "<tbody>\n" + facts + "</tbody>"));
  if (!options.empty()) {
    section += fmt::format("<details><summary>Options of the training</summary>{}</details>\n",
                           box("facts", "Options of the training", "<tbody>\n" + options + "</tbody>"));
  }
  return section + "</section>\n";
}

std::string Page::html() const {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
      "<title>Evaluation of {} at step {}</title>\n<style>{}</style>\n</head>\n<body>\n",
      html_text(report_.model), report_.step, html_style);
  page += header() + "<main>\n" + scores() + curves() + matrix() + classes() + calibration() + pictures() + run();
  return page + fmt::format("</main>\n<footer>Written by {}.</footer>\n<script>{}</script>\n</body>\n</html>\n",
                            html_text(report_.version), html_script);
}

}  // namespace

std::string html_report(const HtmlReport& report) { return Page(report).html(); }

void write_html_report(const std::filesystem::path& path, const HtmlReport& report) {
  const std::string page = html_report(report);
  write_file_atomically(path, std::as_bytes(std::span(page)));
}

}  // namespace carillon
