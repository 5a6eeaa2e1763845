-- MPT's control messages and sealed packets for Wireshark and tshark 3.4 and newer, beneath their own GRE dissector:
--
--   tshark -X lua_script:mpt.lua -i eth0 -f 'udp port 4754'
--
-- or put it into the folder of personal Lua plugins (Help, About, Folders). What it shows stands in docs/protocol.md,
-- field by field. What is sealed stays so: here are no keys.

local control = Proto("mpt", "MPT control message")
local sealed = Proto("mpt_sealed", "MPT sealed")

local KINDS = {
    [1] = "Message", [2] = "Report", [3] = "Initiation", [4] = "Response", [5] = "Cookie reply", [6] = "Edges",
}
local MESSAGE, REPORT, INITIATION, RESPONSE, COOKIE, EDGES = 1, 2, 3, 4, 5, 6

local f = {
    kind = ProtoField.uint8("mpt.kind", "Kind", base.DEC, KINDS),
    flags = ProtoField.uint8("mpt.flags", "Flags", base.HEX),
    reply_wanted = ProtoField.bool("mpt.flags.reply_wanted", "Reply wanted", 8, nil, 0x01),
    has_echo = ProtoField.bool("mpt.flags.echo", "Echo present", 8, nil, 0x02),
    out_of_service = ProtoField.bool("mpt.flags.out_of_service", "Path out of service", 8, nil, 0x04),
    wants_reports = ProtoField.bool("mpt.flags.reports", "Reports wanted", 8, nil, 0x08),
    recovers = ProtoField.bool("mpt.flags.recovers", "Lost packets are sent again", 8, nil, 0x10),
    path = ProtoField.uint8("mpt.path", "Path"),
    number = ProtoField.uint32("mpt.number", "Number"),
    session = ProtoField.uint64("mpt.session", "Session", base.HEX),
    of_session = ProtoField.uint64("mpt.of_session", "Session that is reported on", base.HEX),
    receiver_session = ProtoField.uint64("mpt.receiver_session", "Session of the receiver", base.HEX),
    sent_at = ProtoField.uint64("mpt.sent_at", "Time of sending (ns)"),
    tx_packets = ProtoField.uint64("mpt.tx_packets", "Datagrams sent on this path"),
    tx_bytes = ProtoField.uint64("mpt.tx_bytes", "Bytes sent on this path"),
    next = ProtoField.uint32("mpt.next", "Next sequence number"),
    echo_number = ProtoField.uint32("mpt.echo.number", "Echo: number"),
    echo_session = ProtoField.uint64("mpt.echo.session", "Echo: session", base.HEX),
    echo_sent_at = ProtoField.uint64("mpt.echo.sent_at", "Echo: time of sending (ns)"),
    echo_received_at = ProtoField.uint64("mpt.echo.received_at", "Echo: time of receipt (ns)"),
    rx_packets = ProtoField.uint64("mpt.rx_packets", "Datagrams received on this path"),
    rx_bytes = ProtoField.uint64("mpt.rx_bytes", "Bytes received on this path"),
    loss = ProtoField.uint32("mpt.loss", "Loss recently seen (millionths)"),
    padding = ProtoField.bytes("mpt.padding", "Behind the message"),
    paths = ProtoField.uint8("mpt.report.paths", "Path entries"),
    ranges = ProtoField.uint8("mpt.report.ranges", "Missing ranges"),
    duplicates = ProtoField.uint8("mpt.report.duplicates", "Duplicates"),
    delivered = ProtoField.uint32("mpt.report.delivered", "All below was delivered or given up"),
    highest = ProtoField.uint32("mpt.report.highest", "One past the highest that arrived"),
    edge = ProtoField.uint32("mpt.edge", "Edge"),
    edge_at = ProtoField.uint64("mpt.edge.at", "Its time of arrival (ns)"),
    path_packets = ProtoField.uint64("mpt.path.packets", "Datagrams with numbers"),
    path_bytes = ProtoField.uint64("mpt.path.bytes", "Their bytes"),
    missing = ProtoField.uint32("mpt.missing", "First missing"),
    missing_count = ProtoField.uint32("mpt.missing.count", "How many"),
    duplicate = ProtoField.uint32("mpt.duplicate", "Duplicate"),
    entries = ProtoField.uint8("mpt.edges.entries", "Entries"),
    edge_sent = ProtoField.uint8("mpt.edge.sent", "A number was sent there"),
    suspected = ProtoField.uint8("mpt.edge.suspected", "The path is suspected"),
    ephemeral = ProtoField.bytes("mpt.noise.ephemeral", "Ephemeral public key"),
    static = ProtoField.bytes("mpt.noise.static", "Static public key, encrypted"),
    payload = ProtoField.bytes("mpt.noise.payload", "Payload, encrypted"),
    mac1 = ProtoField.bytes("mpt.mac1", "mac1"),
    mac2 = ProtoField.bytes("mpt.mac2", "mac2"),
    index = ProtoField.uint32("mpt.index", "Initiator's index", base.HEX),
    nonce = ProtoField.bytes("mpt.cookie.nonce", "Random"),
    cookie = ProtoField.bytes("mpt.cookie", "Cookie, encrypted"),
}
control.fields = {}
for _, field in pairs(f) do table.insert(control.fields, field) end

local s = {
    what = ProtoField.string("mpt_sealed.what", "What"),
    sender_path = ProtoField.uint8("mpt_sealed.path", "Path, sender's"),
    receiver_path = ProtoField.uint8("mpt_sealed.receiver_path", "Path, receiver's"),
    number = ProtoField.uint64("mpt_sealed.number", "Number"),
    sealed = ProtoField.bytes("mpt_sealed.data", "Encrypted"),
    tag = ProtoField.bytes("mpt_sealed.tag", "Tag"),
}
sealed.fields = { s.what, s.sender_path, s.receiver_path, s.number, s.sealed, s.tag }

local short = ProtoExpert.new("mpt.short", "The message is shorter than its kind", expert.group.MALFORMED, expert.severity.ERROR)
control.experts = { short }
local sealed_short = ProtoExpert.new("mpt_sealed.short", "Shorter than any sealed packet", expert.group.MALFORMED, expert.severity.ERROR)
sealed.experts = { sealed_short }

local gre_key = Field.new("gre.key")
local gre_has_number = Field.new("gre.flags.sequence_number")

-- Adds fields that follow each other: { field, bytes }.
local function add_all(tree, buffer, at, fields)
    for _, one in ipairs(fields) do
        tree:add(one[1], buffer(at, one[2]))
        at = at + one[2]
    end
    return at
end

local function message(buffer, tree)
    local flags = tree:add(f.flags, buffer(1, 1))
    for _, flag in ipairs({ f.reply_wanted, f.has_echo, f.out_of_service, f.wants_reports, f.recovers }) do
        flags:add(flag, buffer(1, 1))
    end
    tree:add(f.path, buffer(2, 1))
    local at = add_all(tree, buffer, 4, {
        { f.number, 4 }, { f.session, 8 }, { f.sent_at, 8 }, { f.tx_packets, 8 }, { f.tx_bytes, 8 }, { f.next, 4 },
    })
    if buffer(1, 1):bitfield(6, 1) == 1 then
        add_all(tree, buffer, at, {
            { f.echo_number, 4 }, { f.echo_session, 8 }, { f.echo_sent_at, 8 }, { f.echo_received_at, 8 },
        })
    end
    at = add_all(tree, buffer, 72, { { f.rx_packets, 8 }, { f.rx_bytes, 8 }, { f.loss, 4 } })
    if buffer:len() > at then tree:add(f.padding, buffer(at)) end
    return "path " .. buffer(2, 1):uint() .. ", number " .. buffer(4, 4):uint()
end

local function report(buffer, tree)
    local paths, ranges, duplicates = buffer(1, 1):uint(), buffer(2, 1):uint(), buffer(3, 1):uint()
    local at = add_all(tree, buffer, 1, {
        { f.paths, 1 }, { f.ranges, 1 }, { f.duplicates, 1 }, { f.number, 4 }, { f.session, 8 }, { f.of_session, 8 },
        { f.sent_at, 8 }, { f.delivered, 4 }, { f.highest, 4 },
    })
    if buffer:len() < 40 + 32 * paths + 8 * ranges + 4 * duplicates then return nil end
    for _ = 1, paths do
        local entry = tree:add(control, buffer(at, 32), "Path " .. buffer(at, 1):uint())
        entry:add(f.path, buffer(at, 1))
        at = add_all(entry, buffer, at + 4, { { f.edge, 4 }, { f.edge_at, 8 }, { f.path_packets, 8 }, { f.path_bytes, 8 } })
    end
    for _ = 1, ranges do at = add_all(tree, buffer, at, { { f.missing, 4 }, { f.missing_count, 4 } }) end
    for _ = 1, duplicates do at = add_all(tree, buffer, at, { { f.duplicate, 4 } }) end
    return "number " .. buffer(4, 4):uint() .. ", " .. ranges .. " missing ranges"
end

local function edges(buffer, tree)
    local entries = buffer(1, 1):uint()
    tree:add(f.entries, buffer(1, 1))
    local at = add_all(tree, buffer, 4, { { f.next, 4 }, { f.session, 8 }, { f.receiver_session, 8 } })
    if buffer:len() < 24 + 8 * entries then return nil end
    for _ = 1, entries do
        local entry = tree:add(control, buffer(at, 8), "Path " .. buffer(at, 1):uint())
        add_all(entry, buffer, at, { { f.path, 1 }, { f.edge_sent, 1 }, { f.suspected, 1 } })
        at = add_all(entry, buffer, at + 4, { { f.edge, 4 } })
    end
    return entries .. " paths"
end

local function initiation(buffer, tree)
    add_all(tree, buffer, 4, { { f.ephemeral, 32 }, { f.static, 48 }, { f.payload, 52 }, { f.mac1, 16 }, { f.mac2, 16 } })
    return "handshake"
end

local function response(buffer, tree)
    add_all(tree, buffer, 4, { { f.index, 4 }, { f.ephemeral, 32 }, { f.payload, 40 }, { f.mac1, 16 } })
    return "handshake"
end

local function cookie(buffer, tree)
    add_all(tree, buffer, 4, { { f.nonce, 24 }, { f.cookie, 32 } })
    return "handshake"
end

-- How each kind is shown, and its least length in bytes.
local SHOWN = {
    [MESSAGE] = { message, 92 },
    [REPORT] = { report, 40 },
    [INITIATION] = { initiation, 168 },
    [RESPONSE] = { response, 96 },
    [COOKIE] = { cookie, 60 },
    [EDGES] = { edges, 24 },
}

function control.dissector(buffer, pinfo, root)
    if buffer:len() == 0 then return 0 end
    local kind = buffer(0, 1):uint()
    -- The EtherType is anybody's: what is no kind of ours is somebody else's.
    local shown = SHOWN[kind]
    if not shown then return 0 end
    pinfo.cols.protocol = "MPT"
    local tree = root:add(control, buffer())
    tree:add(f.kind, buffer(0, 1))
    local said = buffer:len() >= shown[2] and shown[1](buffer, tree) or nil
    if not said then tree:add_proto_expert_info(short) end
    pinfo.cols.info = KINDS[kind] .. (said and ", " .. said or ", too short")
    return buffer:len()
end

local TAG = 16

function sealed.dissector(buffer, pinfo, root)
    pinfo.cols.protocol = "MPT"
    local tree = root:add(sealed, buffer())
    local key, has_number = gre_key(), gre_has_number()
    local is_data = has_number ~= nil and has_number.value
    local without_order = key ~= nil and key.value % 2 == 1
    local what, at = "control message", 8
    if is_data then
        what, at = without_order and "data without order" or "data", 0
    end
    tree:add(s.what, what):set_generated()
    if buffer:len() < at + TAG then
        tree:add_proto_expert_info(sealed_short)
        pinfo.cols.info = "Sealed " .. what .. ", too short"
        return buffer:len()
    end
    if not is_data then
        tree:add(s.sender_path, buffer(0, 1))
        tree:add(s.receiver_path, buffer(1, 1))
        tree:add(s.number, buffer(2, 6), buffer(2, 6):uint64())
    end
    local length = buffer:len() - at - TAG
    if length > 0 then tree:add(s.sealed, buffer(at, length)) end
    tree:add(s.tag, buffer(at + length, TAG))
    pinfo.cols.info = "Sealed " .. what .. ", " .. length .. " bytes"
    return buffer:len()
end

local by_type = DissectorTable.get("gre.proto")
by_type:add(0x88B5, control)
by_type:add(0x88B6, sealed)
