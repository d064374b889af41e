#include "src/report/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <system_error>

#include "carillon/core/error.h"
#include "carillon/data/record.h"
#include "report/event.pb.h"
#include "src/core/process.h"
#include "src/report/metrics.h"

namespace carillon {
namespace {

constexpr std::string_view prefix = "events.out.tfevents.";
constexpr std::size_t buffer_bytes = 1 << 16;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct NewName {
  std::int64_t seconds;
  bool is_first;  ///< true if the directory has no other event file
};

/// Returns the time for the name of a new file. It is the present time, but always later than the time in every file
/// name in the directory. TensorBoard reads files in the order of their names. A quick restart, or a clock that was set
/// back, must not change the order.
NewName next_name(const std::filesystem::path& directory) {
  constexpr std::int64_t max_seconds = 9'999'999'999;  // 10 digits, because Carillon does not write longer numbers
  NewName next{static_cast<std::int64_t>(seconds_since_1970()), true};
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error); !error && entry != end(entry);
       entry.increment(error)) {
    const auto name = entry->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    next.is_first = false;
    std::int64_t other = 0;
    const auto first = name.data() + prefix.size();
    if (std::from_chars(first, name.data() + name.size(), other).ec == std::errc{} && other < max_seconds) {
      next.seconds = std::max(next.seconds, other + 1);
    }
  }
  return next;
}

}  // namespace

struct EventWriter::File {
  AppendLog log;
  std::string beginning{}, buffer{};

  /// Makes the events in the buffer, which include START, the beginning of the file. All other events follow them.
  /// Without START, TensorBoard would show two events for each repeated step, because it would not drop the events of
  /// the stopped run.
  void begin() {
    beginning.swap(buffer);
    flush();
  }
  void add(event::Event& what) {
    what.set_wall_time(seconds_since_1970());
    append_record(buffer, what.SerializeAsString());
    if (buffer.size() >= buffer_bytes) flush();
  }
  void flush() {
    if (beginning.empty() && buffer.empty()) return;
    if (!beginning.empty()) buffer.insert(0, beginning);
    if (log.append(buffer)) beginning.clear();
    buffer.clear();
  }
};

EventWriter::EventWriter(const std::filesystem::path& train_dir, std::int64_t first_step,
                         std::function<void(const std::string&)> warn) {
  auto [seconds, is_first] = next_name(train_dir);
  const auto suffix = fmt::format(".{}.{}", host_name(), ::getpid());
  int error = EEXIST;
  for (; error == EEXIST; ++seconds) {
    file_ = std::make_unique<File>(AppendLog(train_dir / fmt::format("{}{:010}{}", prefix, seconds, suffix), warn));
    error = file_->log.open(true);
  }
  event::Event version;
  version.set_file_version("brain.Event:2");
  file_->add(version);
  if (first_step > 0 || !is_first) {  // if there is an older file at step 0, an earlier run was killed before its first
                                      // checkpoint, and this run repeats that run's steps
    event::Event start;
    start.set_step(first_step);
    start.mutable_session_log()->set_status(event::SessionLog::START);
    file_->add(start);
  }
  file_->begin();
}

EventWriter::~EventWriter() { file_->flush(); }

void EventWriter::graph(std::span<const GraphNode> nodes) {
  event::Graph graph;
  for (const auto& source : nodes) {
    auto& node = *graph.add_node();
    node.set_name(source.name);
    node.set_op(source.op);
    node.set_device(source.device);
    for (const auto& input : source.inputs) node.add_input(input);
    if (!source.shape) continue;
    event::Shape& shape = *(*node.mutable_attr())["_output_shapes"].mutable_list()->add_shape();
    for (const std::int64_t size : source.shape->extents()) shape.add_dim()->set_size(size);
  }
  event::Event what;
  what.set_graph_def(graph.SerializeAsString());
  file_->add(what);
}

void EventWriter::scalar(const std::string& tag, std::int64_t step, double value) {
  event::Event what;
  what.set_step(step);
  auto& summary = *what.mutable_summary()->add_value();
  summary.set_tag(tag);
  summary.set_simple_value(static_cast<float>(value));
  file_->add(what);
}

void EventWriter::histogram(const std::string& tag, std::int64_t step, const Histogram& source) {
  event::Event what;
  what.set_step(step);
  auto& summary = *what.mutable_summary()->add_value();
  summary.set_tag(tag);
  auto& histogram = *summary.mutable_histo();
  histogram.set_min(source.min);
  histogram.set_max(source.max);
  histogram.set_num(source.count);
  histogram.set_sum(source.sum);
  histogram.set_sum_squares(source.sum_squares);
  histogram.mutable_bucket_limit()->Add(source.limits.begin(), source.limits.end());
  histogram.mutable_bucket()->Add(source.counts.begin(), source.counts.end());
  file_->add(what);
}

void EventWriter::text(const std::string& tag, std::int64_t step, const std::string& markdown) {
  constexpr int dt_string = 7;
  event::Event what;
  what.set_step(step);
  auto& summary = *what.mutable_summary()->add_value();
  summary.set_tag(tag);
  summary.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  summary.mutable_tensor()->set_dtype(dt_string);
  summary.mutable_tensor()->mutable_tensor_shape();  // a shape without dimensions means that the tensor is one text
  summary.mutable_tensor()->add_string_val(markdown);
  file_->add(what);
}

void EventWriter::image(const std::string& tag, std::int64_t step, const Picture& picture) {
  event::Event what;
  what.set_step(step);
  auto& summary = *what.mutable_summary()->add_value();
  summary.set_tag(tag);
  auto& image = *summary.mutable_image();
  image.set_height(static_cast<std::int32_t>(picture.height));
  image.set_width(static_cast<std::int32_t>(picture.width));
  image.set_colorspace(static_cast<std::int32_t>(picture.channels));
  image.set_encoded_image_string(encode_png(picture));
  file_->add(what);
}

void EventWriter::flush() { file_->flush(); }

}  // namespace carillon
