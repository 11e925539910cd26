"""Shuffled batches: theorems, and the pairs they construct.

`theorems` states the bounds on shuffled batches, `buffered` those on shuffle buffers. The pairs of an
idea are made in a file that is named by its side:

========================  =================  ======================================  ===================
bound                     neighbors          idea                                    file
========================  =================  ======================================  ===================
revealed_order_upper      zero-out, replace  the order is told                       theorems
null_record_clones_upper  zero-out           others pass for the null record         upper_clones
vacant_seat_upper         zero-out, replace  who is left out gives a seat            upper_envelope
displaced_example_upper   zero-out, replace  who gives way joins the first batch     upper_envelope_full
largest_batch_lower       zero-out, replace  the largest sum of an epoch             lower_ratio_tests
ratio_test_lower          zero-out, replace  tests of likelihood ratios              lower_ratio_tests
switching_others_lower    replace            others change sides once                lower_switching
late_reaction_lower       zero-out           others react to results, at 1e-6        lower_reacting
early_reaction_lower      zero-out           others react to results, at 1e-5        lower_reacting
revealed_buffer_upper     zero-out           the slots are told                      buffered
buffered_largest_lower    zero-out           the largest sum of the last batches     lower_ratio_tests
buffered_ratio_lower      zero-out           the same tests of the last batches      lower_ratio_tests
buffered_batch_lower      zero-out           the likeliest batch for some record     buffered
========================  =================  ======================================  ===================

`upper_envelope_layers` sharpens what the first batch hides of who gives way, layer by layer.
`upper_adaptive_zero_out` and `upper_adaptive_replace_one` lower the envelope to what an adversary can
reach who sees all earlier results. `worst_batches` and `least_of_bounds` are sums and searches that
several share.
"""
