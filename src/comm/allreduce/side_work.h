// SideWork: orders a second (side) stream and the compute stream by events.
//
//   compute  --gradients of bucket 0--ready---gradients of bucket 1--ready----------wait--update
//   side                                 wait--reduce bucket 0--------  wait--reduce bucket 1--done
//
// An event is recorded again for each bucket. A wait refers to the record that was the latest when the wait was
// enqueued. In a stream capture, these waits are the fork and the join that make the side stream part of the graph.
#pragma once

namespace carillon {

/// `Stream`: a handle of an in-order queue. `Event` must have record(stream) and make_wait(stream), like CudaEvent.
template <typename Event, typename Stream>
class SideWork {
 public:
  /// `side` outlives this.
  explicit SideWork(const Stream& side) : side_(side) {}

  const Stream& side() const { return side_; }
  /// Work enqueued on `side` from now on waits for all work on `compute` so far.
  void fork(const Stream& compute) {
    ready_.record(compute);
    ready_.make_wait(side_);
    forked_ = true;
  }
  /// Work enqueued on `compute` from now on waits for all work on `side` so far.
  void join(const Stream& compute) {
    if (!forked_) return;  // a side stream that never waited is not part of the capture
    done_.record(side_);
    done_.make_wait(compute);
    forked_ = false;
  }

 private:
  const Stream& side_;
  Event ready_, done_;
  bool forked_ = false;
};

}  // namespace carillon
