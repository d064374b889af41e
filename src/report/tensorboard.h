// The output of a training for TensorBoard: summaries of its tensors, and the event file that contains them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/tensor.h"
#include "carillon/device/device.h"
#include "carillon/graph/parameters.h"
#include "carillon/models/network.h"
#include "src/graph/executable.h"
#include "src/images/picture.h"
#include "src/step/input/input_stage.h"

namespace carillon {

// Summaries of tensors: histograms of variables and gradients, and the activations of the layers (tensor_summary.cpp).

/// Counts of float values in TensorFlow's exponential buckets.
///
/// Bucket limits: -DBL_MAX, ..., -1e-12 * 1.1^k, ..., 0, ..., 1e-12 * 1.1^k (below 1e20), ..., DBL_MAX; bucket i counts
/// limit[i-1] <= x < limit[i]. Source: tensorflow/core/lib/histogram/histogram.cc.
struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;  ///< number of finite values; no member of Histogram includes NaN or infinities
  double sum = 0;
  double sum_squares = 0;
  /// A run of empty buckets is merged into one bucket, as in TensorFlow.
  std::vector<double> limits;
  std::vector<double> counts;
};

/// Returns the histogram of `values`. Histograms cause most of the cost of a summary. Therefore this function reads the
/// values once, and finds the bucket of a value without a search.
Histogram histogram_of(std::span<const float> values);

/// Returns the histogram of values[i] + factor * others[i]. Product and sum are each rounded to float. Requires equal
/// lengths.
Histogram histogram_of_sum(std::span<const float> values, float factor, std::span<const float> others);

/// Returns all bucket limits, in ascending order.
std::span<const double> histogram_limits();

/// Histograms of all variables and of their gradients, in the order of the parameters' specs.
struct ParameterHistograms {
  std::vector<Histogram> variables;
  std::vector<Histogram> gradients;  ///< histograms of the gradients of the loss, including its L2 part
};

/// The part of the histograms that a rank computes. The rank leaves all other histograms empty. This lets two ranks of
/// a host divide the work.
struct HistogramShare {
  bool variables = true;
  bool gradients = true;
};

/// Computes the histograms that `share` selects. A CPU with several threads computes several histograms at the same
/// time.
ParameterHistograms parameter_histograms(const ParameterStore& parameters, Device& device, const HistogramShare& share);

/// Serialises histograms, to send them to the rank that logs.
std::string pack(const std::vector<Histogram>& histograms);
/// Restores histograms. `bytes`: the result of `pack`.
std::vector<Histogram> unpack_histograms(std::string_view bytes);

/// The activations of a network's layers for one batch.
struct LayerSummary {
  struct Layer {
    std::string name;
    std::vector<float> activations;  ///< values after the layer's ReLU; if the layer has no ReLU, values after the
                                     ///< layer
  };
  std::vector<Layer> layers;    ///< the layers with variables, in network order
  std::vector<Picture> images;  ///< the first images of the batch in the form that the network reads, scaled to 0..255
};

/// Computes the activations with a second executable that has the same network and variables. Therefore the memory plan
/// of the training need not keep every activation. A summary takes the time of one forward pass.
class LayerSummarizer {
 public:
  /// `settings`: must have Purpose::summary. `parameters` and `buffers` belong to a graph of the same network.
  /// `parameters`, `buffers` and `device` outlive the summarizer.
  LayerSummarizer(const Network& network, const BuildSettings& settings, const ParameterStore& parameters,
                  const BufferStore& buffers, Device& device);

  LayerSummary summarize(const Batch& batch);

 private:
  Device& device_;
  BuiltNetwork network_;
  std::unique_ptr<InputStage> input_stage_;
  Executable executable_;
};

/// Scales a float image [height, width, channels] as TensorFlow's image summary does. If no value is negative, the
/// range from 0 to the largest value becomes 0..255. Otherwise 0 becomes 128, and the value with the largest magnitude
/// becomes 255 or 1.
Picture picture_of(const float* values, std::int64_t height, std::int64_t width, std::int64_t channels);

// EventWriter (event_writer.cpp): a TensorBoard event file, `train_dir/events.out.tfevents.<seconds>.<host>.<pid>`.
//
// The file has TFRecord framing around tensorflow.Event messages (field numbers: tensorflow/core/util/event.proto,
// framework/summary.proto, framework/graph.proto, framework/tensor.proto). The first event is file_version
// "brain.Event:2", which is flushed immediately. If the run resumes, or if an earlier run left event files, the next
// event is a SessionLog START with the first step. This event makes readers drop the events of the earlier run from
// this step on.

/// A node of the graph that TensorBoard draws: tensorflow.NodeDef.
struct GraphNode {
  std::string name;
  std::string op;
  std::vector<std::string> inputs;  ///< names of nodes
  std::string device;               ///< "/job:worker/task:0/device:CPU:0"
  std::optional<Shape> shape = {};  ///< shape of the node's output, for the edges of the drawing; nullopt: unknown
};

class EventWriter {
 public:
  /// `first_step` > 0 means a resumed run. Calls `warn` with the first error; training continues.
  EventWriter(const std::filesystem::path& train_dir, std::int64_t first_step,
              std::function<void(const std::string&)> warn);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void graph(std::span<const GraphNode> nodes);
  void scalar(const std::string& tag, std::int64_t step, double value);
  void histogram(const std::string& tag, std::int64_t step, const Histogram& source);
  /// Logs Markdown for the Text page.
  void text(const std::string& tag, std::int64_t step, const std::string& markdown);
  /// Logs an image, stored as a PNG.
  void image(const std::string& tag, std::int64_t step, const Picture& picture);
  void flush();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace carillon
